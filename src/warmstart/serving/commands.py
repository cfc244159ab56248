"""The settings and the command of `serve`."""

from ipaddress import ip_address

from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.printing import say
from warmstart.settings.base import advanced, argument, option
from warmstart.settings.shared import Machine, Precision, TableFormat

LABEL_FORMATS = ("csv", "tsv", "jsonl")  # of --label


class ServeConfig(TableFormat, Machine, panel="Server"):
    """Runs in, a server out."""

    runs: tuple[str, ...] = argument("run folders; NAME=RUN chooses the name of a run")
    host: str = option("address to listen on", "127.0.0.1", metavar="HOST")
    port: int = option("port to listen on; 0: any free one", 8000, least=0, most=65_535)
    token: str | None = option(
        "bearer token that requests must carry; default: $WARMSTART_TOKEN, or none",
        None,
        metavar="TEXT",
    )
    label: str | None = option(
        "table to label on the page, such as the output of suggest; saved after every label",
        None,
        metavar="FILE",
    )
    columns: tuple[str, ...] = option(
        "of --label, e.g. text=comment,label=mood; default: found, and 'label'",
        (),
        comma_separated=True,
        metavar="NAMES",
    )
    unusual: bool = option("mark texts unlike those trained on, where a request asks for it", False)
    like: str | None = option(
        "usual texts for --unusual; default: the labelled texts of each run", None, metavar="FILE"
    )
    timeout: float = option("seconds that one request may take", 60.0, above=0)
    batch_tokens: int = advanced("tokens computed together, at most", 8192, least=1)
    max_queue: int = advanced(
        "texts that may wait for a run; then the answer is 429", 1024, least=1
    )
    max_texts: int = advanced("texts in one request", 256, least=1)
    max_megabytes: float = advanced("size of one request", 1.0, above=0)
    max_silent: int = advanced(
        "connections of one client address without a whole request; 0: any, behind a proxy",
        128,
        least=0,
    )
    allow_origin: tuple[str, ...] = advanced(
        "web site whose pages may call the server; may repeat", (), metavar="URL"
    )
    precision: Precision = option(
        "auto, bf16, fp16: faster, less exact than fp32", "fp32", panel="Machine"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.host.strip():  # which would be every address
            raise WarmstartError("--host is empty: give an address, such as 127.0.0.1")
        if self.token is not None and not self.token.strip():  # a variable that is not set
            raise WarmstartError("--token is empty: anybody could use the server; give a token")
        if self.columns and self.label is None:
            raise WarmstartError("--columns names those of --label: give --label too")
        if self.like is not None and not self.unusual:
            raise WarmstartError("--like names usual texts for --unusual: give --unusual too")

    @property
    def is_local(self) -> bool:
        """Tell whether only this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address means the machine itself."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def serve(config: ServeConfig) -> None:
    from warmstart.serving.serve import serve as run

    say(f"stopped: {quantity(run(config), 'request')} answered")

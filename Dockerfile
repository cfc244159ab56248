# A small image that serves runs, or trains them, on a CPU:
#
#     docker build -t warmstart .
#     docker run --rm -p 127.0.0.1:8000:8000 -e WARMSTART_TOKEN -v ./runs:/runs:ro \
#         warmstart serve --host 0.0.0.0 /runs/warm
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /source
RUN python -m venv /opt/warmstart
ENV PATH=/opt/warmstart/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# The wheel of torch without CUDA is not on PyPI. Its dependencies are installed with ours, below.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt ./
RUN pip install --no-deps --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install -c constraints.txt ".[serve]" && pip check

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin warmstart \
    && install --directory --owner warmstart --group warmstart /runs
COPY --from=build /opt/warmstart /opt/warmstart
ENV PATH=/opt/warmstart/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /runs
VOLUME /runs
EXPOSE 8000
# For a server; training needs `docker run --no-healthcheck`.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["warmstart"]
CMD ["--help"]

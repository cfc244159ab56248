// Label lines of text with an exported classifier.
//
// npm install --prefix examples
// warmstart export runs/labels --to onnx -o labels-onnx
// node examples/onnx_classify.mjs labels-onnx < texts.txt
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { InferenceSession, Tensor } from "onnxruntime-web";

const folder = process.argv[2];
const json = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
const config = json("config.json");
const tokenizer = new Tokenizer(json("tokenizer.json"), json("tokenizer_config.json"));
const session = await InferenceSession.create(readFileSync(`${folder}/model.onnx`));

const row = (numbers) => new Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]);
for (const text of readFileSync(0, "utf8").split("\n").slice(0, -1)) {
  const { ids } = tokenizer.encode(text);
  if (ids.length > config.max_length) ids.splice(config.max_length - 1, ids.length - config.max_length);
  const inputs = { input_ids: row(ids), attention_mask: row(ids.map(() => 1)) };
  if (session.inputNames.includes("token_type_ids")) inputs.token_type_ids = row(ids.map(() => 0));
  const { logits } = await session.run(inputs);
  const label = logits.data.indexOf(Math.max(...logits.data));
  console.log(`${config.id2label[label]}\t${text}`);
}

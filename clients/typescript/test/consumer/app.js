import { Fanfold, Problem } from "fanfold-client";

const client = new Fanfold({ url: "http://127.0.0.1:1", token: "token", deadlineMs: 1 });
try {
  await client.unread();
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  console.log(error.kind);
}

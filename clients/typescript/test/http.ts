/** A server on loopback whose answers a test chooses. */

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { Fanfold, type Options } from "fanfold-client";

export interface Asked {
  method: string;
  path: string;
  query: Record<string, string>;
  headers: IncomingMessage["headers"];
  body: unknown;
}

/** `lost`: the connection breaks without an answer; `cut`: in the middle of one. */
export type Answer =
  | "lost"
  | "cut"
  | { status?: number; headers?: Record<string, string>; json?: unknown; text?: string };

export interface Server {
  url: string;
  asked: Asked[];
}

export async function serve(
  test: TestContext,
  answer: (asked: Asked, index: number) => Answer | Promise<Answer>,
): Promise<Server> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const url = new URL(request.url ?? "", "http://localhost");
    const one: Asked = {
      method: request.method ?? "",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: request.headers,
      body: text ? JSON.parse(text) : undefined,
    };
    const said = await answer(one, asked.push(one) - 1);
    if (said === "lost") return request.socket.destroy();
    if (said === "cut") {
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": 1000 });
      response.write('{"entries":', () => request.socket.destroy());
      return;
    }
    const { status = 200, headers = {}, json, text: words } = said;
    const kind = status < 400 ? "application/json" : "application/problem+json";
    response.writeHead(status, json === undefined ? headers : { "Content-Type": kind, ...headers });
    response.end(json === undefined ? words : JSON.stringify(json));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

/** A client that hardly waits. */
export function clientOf(server: Server, options: Partial<Options> = {}): Fanfold {
  return new Fanfold({ url: server.url, token: "of-bob", backoffMs: 1, ...options });
}

export function problem(status: number, kind: string, detail = "Do something."): Answer {
  const type = `https://fanfold.example/docs/problems.md#${kind}`;
  return { status, json: { type, title: "A title", status, detail } };
}

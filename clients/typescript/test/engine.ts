/** The deployed stack that tests/e2e names, and users of it. */

import { Fanfold, type Page } from "fanfold-client";

interface Stack {
  url: string;
  /** A token for each name that a test uses; the user's real name is another one. */
  tokens: Record<string, string>;
  /** The user's real name. */
  names: Record<string, string>;
  /** How many posts were sent before, and how many the test publishes. */
  sent: number;
  published: number;
}

const stack = JSON.parse(process.env["FANFOLD_STACK"] ?? "{}") as Stack;

export const { names, sent, published } = stack;
// A busy machine takes its time.
const PATIENCE_MS = 240_000;

export function clientOf(name: string): Fanfold {
  const token = stack.tokens[name];
  if (!token) throw new Error(`No token for ${name}: run it by pytest tests/e2e.`);
  return new Fanfold({ url: stack.url, token, deadlineMs: PATIENCE_MS, attemptMs: PATIENCE_MS });
}

export async function idsOf(pages: AsyncIterable<Page>): Promise<string[]> {
  const ids: string[] = [];
  for await (const page of pages) ids.push(...page.entries.map((each) => each.ref_id));
  return ids;
}

/** Wait until the claim holds. */
export async function eventually(claim: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await claim())) {
    if (Date.now() > end) throw new Error("not true in time");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

import { type Entry, Fanfold, type Page, Problem } from "fanfold-client";

const client = new Fanfold({ url: "https://api.example", token: async (old) => old ?? "token" });
export const titles = async (): Promise<string[]> => {
  const found: string[] = [];
  const pages: AsyncGenerator<Page, void, undefined> = client.timeline({ limit: 20 }).older();
  for await (const { entries } of pages) {
    found.push(...entries.map(({ ref_id, body }: Entry) => `${ref_id} ${body?.["title"]}`));
  }
  const { data } = await client.api.GET("/v1/following", { params: { query: { limit: 1 } } });
  const count: number | undefined = data?.count;
  return [...found, String(count)];
};
// @ts-expect-error: the contract has no such parameter
export const refused = () => client.api.GET("/v1/timeline", { params: { query: { page: 1 } } });
export const isGone = (error: unknown) => error instanceof Problem && error.kind === "no-post";

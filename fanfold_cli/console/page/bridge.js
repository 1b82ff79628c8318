// Calls of the bridge, with the key from the page's address. The key is stored for reloads, and removed
// from the history. A hash without a key comes from a link within the page.
const given = new URLSearchParams(location.hash.slice(1)).get("key");
if (given) sessionStorage.setItem("key", given);
const key = sessionStorage.getItem("key") ?? "";
history.replaceState(null, "", location.pathname);
const headers = { "x-fanfold-key": key };

const read = async (response) => {
  const content = await response.json();
  if (!response.ok) throw new Error(content.error);
  return content;
};
export const getState = async () => read(await fetch("/state", { headers }));
export const act = async (content) =>
  read(
    await fetch("/act", {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify(content),
    }),
  );

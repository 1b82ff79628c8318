// What a token and a post hold, whoever has written them.

/** The claims of a token that can be read; its signature is for the service to check. */
export function claimsOf(token) {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return Object(JSON.parse(atob(part)));
  } catch {
    return undefined;
  }
}

/** A post as text: its words, or else its whole body. */
export function textOf(body) {
  const words = [body?.text, body?.title].find((each) => typeof each === "string");
  return words ?? JSON.stringify(body);
}

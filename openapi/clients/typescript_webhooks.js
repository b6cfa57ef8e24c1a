// Verifies the messages that triggers post (Standard Webhooks).

// A message that is older, or dated later, may have been sent before.
const TOLERANCE_SECONDS = 300;

export class InvalidWebhook extends Error {
  constructor(message) {
    super(message);
    this.name = "InvalidWebhook";
  }
}

/** Parse a message after its signature is found to be right. */
export async function verifyWebhook(secret, headers, body) {
  const values = headers instanceof Headers ? headers : new Headers(headers);
  const timestamp = values.get("webhook-timestamp") ?? "";
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) {
    throw new InvalidWebhook("webhook-timestamp is missing, or more than five minutes away.");
  }
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", decode(secret.replace(/^whsec_/, "")), algorithm, false, ["verify"]);
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const signed = new TextEncoder().encode(`${values.get("webhook-id") ?? ""}.${timestamp}.${text}`);
  // A secret that is being replaced signs beside the new one.
  for (const candidate of (values.get("webhook-signature") ?? "").split(" ")) {
    if (candidate.startsWith("v1,") && (await isRight(key, candidate.slice(3), signed))) return JSON.parse(text);
  }
  throw new InvalidWebhook("webhook-signature is not that of the message.");
}

async function isRight(key, signature, signed) {
  try {
    return await crypto.subtle.verify("HMAC", key, decode(signature), signed);
  } catch {
    return false;
  }
}

function decode(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** The message is not from the server, or was not sent within five minutes. */
export declare class InvalidWebhook extends Error {}

/**
 * Parse a message after its signature is found to be right; throws InvalidWebhook.
 * `secret` is that of the trigger, with its `whsec_`; `body` is what came, unparsed.
 */
export declare function verifyWebhook(
  secret: string,
  headers: Headers | Record<string, string>,
  body: string | Uint8Array,
): Promise<unknown>;

export interface ClientOptions {
  /** A token, or `clientId` and `clientSecret`, for which tokens are fetched and renewed. */
  token?: string;
  clientId?: string;
  clientSecret?: string;
  /** The key of a partner. */
  apiKey?: string;
  /** Milliseconds for each attempt, 30000 by default. */
  timeout?: number;
  /** How often a call is repeated, 4 by default. */
  maxRetries?: number;
  /** In place of the fetch of the platform. */
  fetch?: typeof fetch;
}

/** A refusal of the server (RFC 9457). `fields` has all fields, also those without a property. */
export declare class Problem extends Error {
  readonly status: number;
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: Array<{ pointer?: string; detail?: string; [name: string]: unknown }>;
  readonly requestId: string | null;
  readonly fields: Record<string, unknown>;
}

export declare class BaseClient {
  constructor(baseUrl: string, options?: ClientOptions);
}

/** What one error code of the vault means. */
export interface VaultCodeEntry {
  /** HTTP status of the response. */
  readonly status: number
  /** What happened, in one sentence. */
  readonly meaning: string
  /** What to do, and which role can do it. It is the response's `action`, unless the error has an `action` of its own. */
  readonly remedy: string
  /** True when the same request may succeed later without changes. */
  readonly retryable: boolean
}

const entry = (status: number, retryable: boolean, meaning: string, remedy: string): VaultCodeEntry => ({
  status,
  meaning,
  remedy,
  retryable,
})

/**
 * All error codes of the vault. Codes are API: they may be added and deprecated, but are never renamed or given another
 * meaning.
 */
export const vaultCodes = {
  VALIDATION_ERROR: entry(
    400,
    false,
    'The request does not have the expected form.',
    'Correct the fields that are listed in details.',
  ),
  INVALID_TX: entry(
    400,
    false,
    'The transaction cannot be decoded.',
    'Send base64 for Solana, and 0x-prefixed RLP or JSON for EVM. Send the complete transaction without trailing bytes.',
  ),
  UNKNOWN_SCOPE: entry(
    400,
    false,
    'This scope does not exist.',
    'Use the exact name of a scope from scope_examples or /v1/vault/scopes.',
  ),
  UNAUTHORIZED: entry(
    401,
    false,
    'The credential is missing, unknown or revoked.',
    'Send the header Authorization: Bearer vat_… with the token that `tollgate vault agents add` printed.',
  ),
  BAD_PASSWORD: entry(
    401,
    false,
    'The password does not open this vault.',
    'Enter the correct password. After each wrong password, the wait before the next attempt is longer.',
  ),
  SCOPE_DENIED: entry(
    403,
    false,
    'This agent does not have the scope that the request needs.',
    'Ask the owner to add this scope to the agent.',
  ),
  AGENT_SUSPENDED: entry(
    403,
    true,
    'The vault was restored from a backup, and the owner has not yet resumed this agent.',
    'The owner can run `tollgate vault agents resume NAME` or, for a paired agent, `tollgate vault pair resume ID`. The owner can also resume the agent on the approvals page.',
  ),
  OWNER_REQUIRED: entry(
    403,
    false,
    'Only the owner of the vault may do this.',
    "Use the owner's credential on the machine of the vault.",
  ),
  ORIGIN_FORBIDDEN: entry(
    403,
    false,
    'The request came from another site, or it used a host name that is not the name of this vault.',
    'Send the request directly to the address of the vault, not from another site.',
  ),
  APPROVAL_DENIED: entry(
    403,
    false,
    'The owner or a policy refused this request.',
    'Ask the owner before you try again.',
  ),
  BUDGET_EXCEEDED_TX: entry(
    403,
    false,
    'The amount is above the limit for one transaction.',
    'Request a smaller amount, or ask the owner to raise the limit.',
  ),
  BUDGET_EXCEEDED_DAILY: entry(
    403,
    false,
    'The amount is more than what is left of the daily limit.',
    'Wait for the next day, request a smaller amount, or ask the owner to raise the limit.',
  ),
  NOT_FOUND: entry(404, false, 'There is nothing at this address.', 'Check the path and the id.'),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'This address does not support this method.',
    'Use a method from the Allow header.',
  ),
  IDEMPOTENCY_CONFLICT: entry(
    409,
    false,
    'This Idempotency-Key was already used with a different request.',
    'Use a new key for a new request.',
  ),
  APPROVAL_RESOLVED: entry(
    409,
    false,
    'The approval is no longer open, or the request that it showed has changed.',
    'Read the approval again, then decide.',
  ),
  PAIR_USED: entry(
    409,
    false,
    'The pair token has already been used.',
    'Ask the owner for a new pair token.',
  ),
  ALREADY_EXISTS: entry(409, false, 'This name already exists.', 'Choose another name.'),
  APPROVAL_EXPIRED: entry(
    410,
    false,
    'The owner did not decide in time.',
    'Send the request again. The vault then asks the owner again.',
  ),
  PAIR_EXPIRED: entry(410, false, 'The pair token has expired.', 'Ask the owner for a new pair token.'),
  REQUEST_EXPIRED: entry(410, false, 'The request has expired.', 'Send a new request.'),
  SIGN_IN_EXPIRED: entry(
    410,
    false,
    'This sign-in link was already used, or it has expired.',
    'Get a new sign-in link with `tollgate vault open`.',
  ),
  PAYLOAD_TOO_LARGE: entry(
    413,
    false,
    'The body is larger than allowed.',
    'Send a body of less than 256 KiB.',
  ),
  UNSUPPORTED_MEDIA_TYPE: entry(415, false, 'The body is not JSON.', 'Send Content-Type: application/json.'),
  TX_MISMATCH: entry(
    422,
    false,
    'The transaction does not do what the request claims.',
    'Send the same amount, currency and chain in the request as in the transaction.',
  ),
  TX_OPAQUE: entry(
    422,
    false,
    'The vault could not decode all effects of the transaction.',
    'Send a plain transfer. The vault cannot decode unknown programs, function selectors and lookup tables.',
  ),
  FEE_EXCESSIVE: entry(
    422,
    false,
    'The fee is above the limit.',
    'Lower the fee, or ask the owner to raise the limit.',
  ),
  CHAIN_MISMATCH: entry(
    422,
    false,
    'The transaction is for another chain than the chain in the request.',
    'Send the chain of the transaction in the request.',
  ),
  VAULT_LOCKED: entry(423, true, 'The vault is locked.', 'Ask the owner to unlock it with the password.'),
  RATE_LIMIT_EXCEEDED: entry(
    429,
    true,
    'You sent too many requests.',
    'Wait the number of seconds in Retry-After, then try again.',
  ),
  INTERNAL_ERROR: entry(
    500,
    true,
    'An unexpected error occurred in the vault.',
    'Report the X-Request-Id of the response to the owner.',
  ),
  RELAY_UNREACHABLE: entry(
    502,
    true,
    'The relay cannot be reached.',
    'Check the relay address, then try again.',
  ),
  UPSTREAM_ERROR: entry(
    502,
    true,
    'The called API returned an invalid response, or the vault could not reach it.',
    'Try again later.',
  ),
  VAULT_UNREACHABLE: entry(503, true, 'The vault is not connected.', 'Start the vault, then try again.'),
  PLUGIN_FAILED: entry(
    503,
    true,
    "One of the owner's plugins failed to decide on this request.",
    'Try again. If the plugin keeps failing, the owner finds the reason in the log of the vault.',
  ),
  CHAIN_UNAVAILABLE: entry(503, true, 'The chain could not be reached.', 'Try again later.'),
  VAULT_TIMEOUT: entry(504, true, 'The vault did not respond in time.', 'Repeat the same request.'),
  OUTCOME_UNKNOWN: entry(
    504,
    false,
    'The request was sent, but no response came. The request may have been performed.',
    'Check /v1/vault/activity before you send the request again.',
  ),
  UPSTREAM_TIMEOUT: entry(504, true, 'The called API did not respond in time.', 'Try again later.'),
  TOO_MANY_ATTEMPTS: entry(
    429,
    true,
    'A wrong password was entered a moment ago.',
    'Wait the number of seconds in Retry-After. A restart does not shorten the wait.',
  ),
  KEY_UNKNOWN: entry(404, false, 'The vault has no key with this id.', 'Derive or import this key first.'),
  VERSION_CONFLICT: entry(
    409,
    false,
    'The record has changed since you read it.',
    'Read the record again, then decide again.',
  ),
  REQUEST_ID_USED: entry(
    409,
    false,
    'A signature was already requested with this request id.',
    'Send a new request with a new request id. The vault never signs twice for one request id.',
  ),
  VAULT_EXISTS: entry(
    409,
    false,
    'This folder already contains a vault.',
    'Open this vault, or choose an empty folder.',
  ),
  VAULT_NOT_FOUND: entry(
    404,
    false,
    'This folder contains no vault.',
    'Create a vault, or name the folder of an existing vault.',
  ),
  VAULT_IN_USE: entry(
    409,
    true,
    'Another process has this vault open.',
    'Stop the other process, or send the request to the other process.',
  ),
  VAULT_CORRUPT: entry(
    500,
    false,
    'A file of the vault is damaged or was changed.',
    'Restore the newest backup. The message names the file.',
  ),
  SIGNER_LOST: entry(
    503,
    true,
    'The signing process exited during this request. No signature was returned.',
    'Send the request again with a new request id.',
  ),
  STORAGE_UNAVAILABLE: entry(
    503,
    true,
    'The vault could not write to its disk.',
    'Free disk space, then send the request again.',
  ),
} as const satisfies Record<string, VaultCodeEntry>

export type VaultCode = keyof typeof vaultCodes
/** The same type under its longer name. */
export type VaultErrorCode = VaultCode

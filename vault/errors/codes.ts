/** What one error code of the vault means. */
export interface VaultCodeEntry {
  /** HTTP status of the answer. */
  readonly status: number
  /** What happened, in one sentence. */
  readonly meaning: string
  /** Who can mend it, and how: `action` of the answer where there is something to do. */
  readonly remedy: string
  /** True when the same request may succeed later without being changed. */
  readonly retryable: boolean
}

const entry = (status: number, retryable: boolean, meaning: string, remedy: string): VaultCodeEntry => ({
  status,
  meaning,
  remedy,
  retryable,
})

/** The vault's one table of error codes. Codes are API: they are added and deprecated, never reworded in passing. */
export const vaultCodes = {
  VALIDATION_ERROR: entry(
    400,
    false,
    'The request does not have the expected form.',
    'Correct the fields named in details.',
  ),
  INVALID_TX: entry(
    400,
    false,
    'The transaction can not be read.',
    'Send base64 for Solana, 0x-prefixed RLP or JSON for EVM, complete and without trailing bytes.',
  ),
  UNKNOWN_SCOPE: entry(
    400,
    false,
    'There is no such scope.',
    'Use an exact name from scope_examples or /v1/vault/scopes; there are no aliases.',
  ),
  UNAUTHORIZED: entry(
    401,
    false,
    'The credential is missing, unknown or revoked.',
    'Send Authorization: Bearer vat_… as printed by `tollgate vault agents add`.',
  ),
  BAD_PASSWORD: entry(
    401,
    false,
    'The password does not open this vault.',
    'Try the right password; each wrong one lengthens the wait.',
  ),
  SCOPE_DENIED: entry(
    403,
    false,
    'This agent has no grant for that.',
    'The owner can add the scope to the agent.',
  ),
  AGENT_SUSPENDED: entry(
    403,
    true,
    'The vault was restored from a backup, and its owner has not yet said that this agent goes on.',
    'The owner runs `tollgate vault agents resume NAME` (`pair resume ID` for a pairing), or says so on the approvals page.',
  ),
  OWNER_REQUIRED: entry(
    403,
    false,
    'Only the owner may do this.',
    "Use the owner's credential, on the vault's own machine.",
  ),
  ORIGIN_FORBIDDEN: entry(
    403,
    false,
    'The request comes from a page or a name that is not this vault.',
    'Call the vault directly at its own address, not from another site.',
  ),
  APPROVAL_DENIED: entry(
    403,
    false,
    'The owner or a rule refused this.',
    'Ask the owner before trying again.',
  ),
  BUDGET_EXCEEDED_TX: entry(
    403,
    false,
    'The amount is above the limit for one transaction.',
    'Ask for less, or the owner can raise the limit.',
  ),
  BUDGET_EXCEEDED_DAILY: entry(
    403,
    false,
    'The amount does not fit into what is left for the day.',
    'Wait for the next day, ask for less, or the owner can raise the limit.',
  ),
  NOT_FOUND: entry(404, false, 'There is nothing at this address.', 'Check the path and the id.'),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'The address exists, but not for this method.',
    'Use a method of the Allow header.',
  ),
  IDEMPOTENCY_CONFLICT: entry(
    409,
    false,
    'This Idempotency-Key came with another request before.',
    'Use a new key for a new request.',
  ),
  APPROVAL_RESOLVED: entry(
    409,
    false,
    'The approval is no longer open, or what was shown has changed.',
    'Read the approval again.',
  ),
  PAIR_USED: entry(409, false, 'The pair token was used before.', 'Ask the owner for a new one.'),
  ALREADY_EXISTS: entry(409, false, 'The name is taken.', 'Choose another name.'),
  APPROVAL_EXPIRED: entry(410, false, 'Nobody answered in time.', 'Send the request again to ask again.'),
  PAIR_EXPIRED: entry(410, false, 'The pair token is too old.', 'Ask the owner for a new one.'),
  REQUEST_EXPIRED: entry(410, false, 'The request is too old to be performed.', 'Send a new one.'),
  SIGN_IN_EXPIRED: entry(
    410,
    false,
    'This link was used before, or is too old.',
    'Get a new one with `tollgate vault open`.',
  ),
  PAYLOAD_TOO_LARGE: entry(413, false, 'The body is larger than allowed.', 'Send less than 256 KiB.'),
  UNSUPPORTED_MEDIA_TYPE: entry(415, false, 'The body is not JSON.', 'Send Content-Type: application/json.'),
  TX_MISMATCH: entry(
    422,
    false,
    'The transaction does not do what the request claims.',
    'Claim the amount, currency and chain of the transaction itself.',
  ),
  TX_OPAQUE: entry(
    422,
    false,
    'What the transaction does can not be read completely.',
    'Use plain transfers, without unknown programs, selectors or lookup tables.',
  ),
  FEE_EXCESSIVE: entry(
    422,
    false,
    'The fee is above what the rules allow.',
    'Lower the fee, or the owner can raise the limit.',
  ),
  CHAIN_MISMATCH: entry(
    422,
    false,
    'The transaction is for another chain than the one named.',
    'Name the chain of the transaction.',
  ),
  VAULT_LOCKED: entry(423, true, 'The vault is locked.', 'The owner unlocks it with the password.'),
  RATE_LIMIT_EXCEEDED: entry(429, true, 'Too many requests.', 'Wait for Retry-After seconds.'),
  INTERNAL_ERROR: entry(
    500,
    true,
    'Something went wrong in the vault.',
    'Report the X-Request-Id to the owner.',
  ),
  RELAY_UNREACHABLE: entry(502, true, 'The relay can not be reached.', 'Try again; check the relay address.'),
  UPSTREAM_ERROR: entry(502, true, 'The API that was called did not answer well.', 'Try again later.'),
  VAULT_UNREACHABLE: entry(503, true, 'The vault is not connected.', 'Start the vault, then try again.'),
  PLUGIN_FAILED: entry(
    503,
    true,
    "A plugin of the owner's that takes part in this did not decide.",
    'Try again; if it stays so, the owner looks at the log of the vault.',
  ),
  CHAIN_UNAVAILABLE: entry(503, true, 'The chain could not be asked.', 'Try again later.'),
  VAULT_TIMEOUT: entry(504, true, 'The vault did not answer in time.', 'Repeat the same request.'),
  OUTCOME_UNKNOWN: entry(
    504,
    false,
    'The request was sent and no answer came; it may have been performed.',
    'Look at /v1/vault/activity before you send it again.',
  ),
  UPSTREAM_TIMEOUT: entry(504, true, 'The API that was called did not answer in time.', 'Try again later.'),
  TOO_MANY_ATTEMPTS: entry(
    429,
    true,
    'A wrong password was given a moment ago.',
    'Wait for Retry-After; restarting does not shorten it.',
  ),
  KEY_UNKNOWN: entry(404, false, 'The vault has no key of this id.', 'Derive or import the key first.'),
  VERSION_CONFLICT: entry(409, false, 'The record was changed in between.', 'Read it again and decide anew.'),
  REQUEST_ID_USED: entry(
    409,
    false,
    'A signature was asked for under this request id before.',
    'Never sign twice for one request: ask again with a new id.',
  ),
  VAULT_EXISTS: entry(
    409,
    false,
    'There is a vault in this folder already.',
    'Open it, or choose an empty folder.',
  ),
  VAULT_NOT_FOUND: entry(404, false, 'There is no vault in this folder.', 'Create one, or name its folder.'),
  VAULT_IN_USE: entry(
    409,
    true,
    'Another process has this vault open.',
    'Stop that process, or ask it instead.',
  ),
  VAULT_CORRUPT: entry(
    500,
    false,
    'A file of the vault is not what was written.',
    'Restore the newest backup; the file is named in the message.',
  ),
  SIGNER_LOST: entry(
    503,
    true,
    'The signing process ended while it had this request; nothing was signed that left it.',
    'Ask again with a new request id.',
  ),
  STORAGE_UNAVAILABLE: entry(
    503,
    true,
    'The vault could not write to its disk.',
    'Make room on the disk, then send the request again.',
  ),
} as const satisfies Record<string, VaultCodeEntry>

export type VaultCode = keyof typeof vaultCodes
/** The same under its longer name. */
export type VaultErrorCode = VaultCode

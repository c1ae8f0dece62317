/** What one error code means, for the table in docs/errors.md and for every answer that carries it. */
export interface CodeEntry {
  /** HTTP status of the answer. */
  readonly status: number
  /** What happened, in one sentence. */
  readonly meaning: string
  /** Who can mend it, and how. */
  readonly remedy: string
  /** True when the same request may succeed later without being changed. */
  readonly retryable: boolean
}

const entry = (status: number, retryable: boolean, meaning: string, remedy: string): CodeEntry => ({
  status,
  meaning,
  remedy,
  retryable,
})

/**
 * The one table of error codes. Codes are API: they are added and deprecated, never reworded in passing.
 * Upper case: the marketplace API. Lower case: paid calls (marketplace interface, section 4) and the gateway.
 */
export const codes = {
  VALIDATION_ERROR: entry(
    400,
    false,
    'The request does not have the expected form.',
    'Correct the fields named in details.',
  ),
  INVALID_ADDRESS: entry(
    400,
    false,
    'The wallet address is not one of the chain named.',
    'Send a 0x address for base, a base58 address for solana.',
  ),
  UNAUTHORIZED: entry(
    401,
    false,
    'The API key is missing, unknown or revoked.',
    'Send Authorization: Bearer <API key>. In a browser, sign in on the dashboard.',
  ),
  NONCE_EXPIRED: entry(
    401,
    false,
    'The sign-in text is unknown, used or older than five minutes.',
    'Ask for a new nonce and sign its message.',
  ),
  INVALID_SIGNATURE: entry(
    401,
    false,
    'The signature is not one of this address over this message.',
    'Sign the exact message of the nonce step with that wallet.',
  ),
  INVALID_REVIEW_TOKEN: entry(
    401,
    false,
    'The review token or the wallet is not that of the purchase, or the purchase is older than 90 days.',
    "Send both as the paid answer and its receipt gave them: the token beside the data, and the payer's wallet.",
  ),
  FORBIDDEN: entry(
    403,
    false,
    'The resource is your own, and this key may not do this with it.',
    'Turn on what it needs, such as Developer Mode. What belongs to others is answered with 404.',
  ),
  FOREIGN_ORIGIN: entry(
    403,
    false,
    'A browser asked, but not from a page of this service.',
    'Use the dashboard at the public address of the service. Programs use an API key.',
  ),
  WALLET_SIGNATURE_REQUIRED: entry(
    403,
    false,
    "The store's wallet has to sign this change; an API key alone may not make it.",
    'POST the change to /api/v1/profile/payout/nonce or /api/v1/profile/username/nonce, sign the message of the answer with that wallet, and send both along as payoutProof or usernameProof.',
  ),
  NOT_FOUND: entry(404, false, 'There is nothing at this address.', 'Check the path and the id.'),
  STORE_NOT_FOUND: entry(
    404,
    false,
    'The wallet that signed has no store.',
    'Send the same with openStore: true to open one, or sign in with the wallet of your store.',
  ),
  LINK_NOT_FOUND: entry(404, false, 'No link has this address.', 'Check the seller and the slug.'),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'The address exists, but not for this method.',
    'Use a method of the Allow header.',
  ),
  SLUG_ALREADY_EXISTS: entry(
    409,
    false,
    'The store has a link with this slug.',
    'Choose another slug, or leave it out.',
  ),
  USERNAME_TAKEN: entry(409, false, 'Another store has this username.', 'Choose another username.'),
  CONFLICT: entry(
    409,
    false,
    'The resource is in a state that does not allow this.',
    'Read it again and decide anew.',
  ),
  ALREADY_REVIEWED: entry(
    409,
    false,
    'There is a review of this purchase; one is all it gets.',
    'Nothing: the first review stands. Buy again to review again.',
  ),
  WITHDRAWALS_NOT_AVAILABLE: entry(
    409,
    false,
    'The gateway holds no money of the store: buyers pay its wallets directly.',
    'Look in the wallets that GET /api/v1/profile shows in payout.',
  ),
  FEES_NOT_PAYABLE: entry(
    409,
    false,
    'Of the fees that are owed there no invoice can be made: the message says why.',
    'Read GET /api/v1/fees for what is owed; where the operator has named no wallet, ask how fees are paid.',
  ),
  LIMIT_REACHED: entry(409, false, 'The store has as many of these as it may have.', 'Remove one first.'),
  TRANSACTION_NOT_FINAL: entry(
    409,
    true,
    'The transaction is not known to the chain, or not as deep as it has to be.',
    'Check its hash, and send the same request again when the chain has confirmed it.',
  ),
  TRANSACTION_ALREADY_USED: entry(
    409,
    false,
    'The transaction counts for something else already.',
    'Name the transaction that was made for this.',
  ),
  TRANSACTION_NOT_NAMED: entry(
    409,
    false,
    'Without its hash nobody can say which transfer is meant.',
    'Name the transaction in txHash.',
  ),
  SESSION_NOT_OPEN: entry(
    409,
    false,
    'The payment session has ended, or a payment for it is being settled.',
    'Read the session; for another payment create a new one.',
  ),
  IDEMPOTENCY_KEY_REUSED: entry(
    422,
    false,
    'The Idempotency-Key stands for another request.',
    'Send the same body as the first time, or a new key.',
  ),
  RE_ENABLE_FAILED: entry(
    409,
    true,
    'The link can not be re-enabled now.',
    'Wait until cooldown_until; a permanent suspension needs the operator.',
  ),
  PAYLOAD_TOO_LARGE: entry(413, false, 'The body is larger than allowed.', 'Send less.'),
  UNSUPPORTED_MEDIA_TYPE: entry(415, false, 'The body is not JSON.', 'Send Content-Type: application/json.'),
  TRANSACTION_MISMATCH: entry(
    422,
    false,
    'The transaction is on chain and is not the transfer that is asked for.',
    'Name the transaction that moved this token between these wallets.',
  ),
  TRANSACTION_FAILED: entry(
    422,
    false,
    'The transaction failed on chain and moved nothing.',
    'Send the money again, and name the new transaction.',
  ),
  API_NOT_RESPONDING: entry(
    422,
    true,
    "The seller's API did not answer the health check.",
    'Start the API, or correct its url.',
  ),
  RATE_LIMIT_EXCEEDED: entry(429, true, 'Too many requests.', 'Wait for Retry-After seconds.'),
  INTERNAL_ERROR: entry(
    500,
    true,
    'Something went wrong in the gateway.',
    'Report the requestId to the operator.',
  ),
  STORE_UNAVAILABLE: entry(503, true, 'The database does not answer.', 'Try again; nothing was charged.'),
  CHAIN_UNAVAILABLE: entry(503, true, 'The chain could not be asked.', 'Try again with the same signature.'),
  CHAIN_NOT_CONFIGURED: entry(
    503,
    false,
    'The gateway has no node to read this chain from.',
    'The operator sets rpcUrls of the network in the configuration.',
  ),
  NOT_READY: entry(503, true, 'The service is not ready.', 'Read the reasons in details.'),
  SERVICE_BUSY: entry(
    503,
    true,
    'The service has as much of this to do as it may have at once.',
    'Wait for Retry-After seconds.',
  ),

  bad_request: entry(
    400,
    false,
    'The request can not be routed safely.',
    'Send one Host header, a canonical path and well-formed framing.',
  ),
  link_not_found: entry(404, false, 'No link has this address.', 'Check the seller and the slug.'),
  method_not_allowed: entry(
    405,
    false,
    'The link does not take this method.',
    'Use a method of the Allow header.',
  ),
  request_timeout: entry(408, true, 'The request did not arrive in time.', 'Send it again.'),
  payment_required: entry(
    402,
    false,
    'The link costs money and no usable payment came with the call.',
    'Pay one entry of accepts and repeat the call.',
  ),
  invalid_payment: entry(
    400,
    false,
    'The payment cannot be used; nothing was charged. One that was read and fails is 402, with a fresh offer.',
    'Read reason and message, then sign a new payment for one entry of the offer.',
  ),
  payment_already_used: entry(
    409,
    false,
    'This payment is used up: it buys another call, has bought this one, or was charged and is owed or paid back.',
    'Do what the message says. Only another call needs another payment; never pay twice for the same one.',
  ),
  payload_too_large: entry(413, false, 'The request body is larger than the gateway forwards.', 'Send less.'),
  unsupported_encoding: entry(
    415,
    false,
    'The Content-Encoding of the request body is not one that the gateway forwards.',
    'Use codings of the Accept-Encoding header, or send the body without one.',
  ),
  rate_limited: entry(429, true, 'Too many requests.', 'Wait for Retry-After seconds.'),
  internal_error: entry(
    500,
    true,
    'Something went wrong in the gateway.',
    'Report the requestId to the operator.',
  ),
  upstream_error: entry(502, true, "The seller's API failed.", 'Try again later; you were not charged.'),
  api_suspended: entry(
    503,
    true,
    "The seller's API is not answering; the link is paused.",
    'Try again later; you were not charged.',
  ),
  upstream_busy: entry(
    503,
    true,
    "The seller's API has as many calls under way as it may have.",
    'Try again shortly, with the same payment; you were not charged, unless the message says so.',
  ),
  link_misconfigured: entry(
    503,
    true,
    "The gateway's plugins can not serve this link as they are set up.",
    'Try again later; you were not charged. The operator finds the reason in the log and with tollgate check.',
  ),
  settlement_pending: entry(
    503,
    true,
    'The call with this payment is at work, or the payment was sent and its outcome is not known yet.',
    'Repeat the same call with the same payment; do not pay again.',
  ),
  settlement_unavailable: entry(
    503,
    true,
    'No payment can be settled now.',
    'Try again with the same payment; nothing was charged.',
  ),
  store_unavailable: entry(
    503,
    true,
    'The database does not answer.',
    'Try again with the same payment. Nothing was charged, unless it went away while the payment was being stored; the same call gets what was bought then.',
  ),
  call_timeout: entry(
    504,
    true,
    'The gateway has not finished the call in time, and has ended it.',
    'Repeat the same call with the same payment; the message says whether you were charged.',
  ),
  upstream_timeout: entry(
    504,
    true,
    "The seller's API did not answer in time.",
    'Try again later; you were not charged.',
  ),
  loop_detected: entry(
    508,
    false,
    "The link's url leads back to the link, at once or by other links and gateways, or over too many links of this gateway.",
    'Tell the seller: its url has to be the address of an API. Nothing was charged.',
  ),
} as const satisfies Record<string, CodeEntry>

export type ErrorCode = keyof typeof codes

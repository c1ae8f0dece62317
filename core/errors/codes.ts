/** The meaning of one error code, for docs/reference/errors.md and for every response with this code. */
export interface CodeEntry {
  /** HTTP status of the response. */
  readonly status: number
  /** What happened, in one sentence. */
  readonly meaning: string
  /** What to do, and which role has to do it. */
  readonly remedy: string
  /** True if the same request may succeed later. */
  readonly retryable: boolean
}

const entry = (status: number, retryable: boolean, meaning: string, remedy: string): CodeEntry => ({
  status,
  meaning,
  remedy,
  retryable,
})

/**
 * All error codes. A code is part of the API, so codes may be added and deprecated, but never renamed. Codes in upper case belong
 * to the marketplace API. Codes in lower case belong to paid calls (marketplace interface, section 4) and the gateway.
 */
export const codes = {
  VALIDATION_ERROR: entry(
    400,
    false,
    'The request is not valid.',
    'Correct the fields that are listed in details.',
  ),
  INVALID_ADDRESS: entry(
    400,
    false,
    'The wallet address is not valid on this chain.',
    'For the chain base, send an address that starts with 0x. For the chain solana, send a base58 address.',
  ),
  UNAUTHORIZED: entry(
    401,
    false,
    'The API key is missing, unknown or revoked.',
    'Send the header Authorization: Bearer <API key>. In a browser, sign in on the dashboard.',
  ),
  NONCE_EXPIRED: entry(
    401,
    false,
    'The nonce (one-time code) of the signed message is unknown, already used, or older than five minutes.',
    'Request a new nonce and sign its message.',
  ),
  INVALID_SIGNATURE: entry(
    401,
    false,
    'The signature was not made by this address, or it signs another message.',
    'Sign the exact message of the nonce response with the wallet of this address.',
  ),
  INVALID_REVIEW_TOKEN: entry(
    401,
    false,
    'The review token or wallet does not match the purchase, or the purchase is older than 90 days.',
    "Send the review token from the paid response, and the payer's wallet from the receipt of the payment.",
  ),
  FORBIDDEN: entry(
    403,
    false,
    'The resource is yours, but this API key may not perform this operation.',
    'Enable what the operation requires, such as Developer Mode.',
  ),
  FOREIGN_ORIGIN: entry(
    403,
    false,
    'The request came from a browser page of another site.',
    'Use the dashboard at the public address of the service, or an API key in a program.',
  ),
  WALLET_SIGNATURE_REQUIRED: entry(
    403,
    false,
    "This change needs a signature of the store's wallet. An API key alone is not enough.",
    'POST the change to /api/v1/profile/payout/nonce or /api/v1/profile/username/nonce, and sign the message in the response with the wallet of the store. Then send the message and the signature as payoutProof or usernameProof.',
  ),
  NOT_FOUND: entry(404, false, 'There is nothing at this address.', 'Check the path and the id.'),
  STORE_NOT_FOUND: entry(
    404,
    false,
    'The wallet that signed has no store.',
    'To open a store, send the same request with openStore: true. If you have a store, sign in with its wallet.',
  ),
  LINK_NOT_FOUND: entry(404, false, 'No link has this address.', 'Check the seller and the slug.'),
  METHOD_NOT_ALLOWED: entry(
    405,
    false,
    'This address does not support this method.',
    'Use a method from the Allow header.',
  ),
  SLUG_ALREADY_EXISTS: entry(
    409,
    false,
    'The store already has a link with this slug.',
    'Choose another slug, or omit the slug.',
  ),
  USERNAME_TAKEN: entry(409, false, 'Another store has this username.', 'Choose another username.'),
  CONFLICT: entry(
    409,
    false,
    'The current state of the resource does not allow this.',
    'Read the resource again, then decide whether to retry.',
  ),
  ALREADY_REVIEWED: entry(
    409,
    false,
    'This purchase already has a review.',
    'Do nothing, because the first review is kept. Each new purchase can be reviewed once.',
  ),
  RESPONSE_GONE: entry(
    410,
    false,
    'The response of the purchase is not stored, or the purchase is owed back, was refunded or has left the chain.',
    'Read the message. To get the response of a new call, call the link again.',
  ),
  WITHDRAWALS_NOT_AVAILABLE: entry(
    409,
    false,
    'Withdrawals are not available, because buyers pay the wallets of the store directly.',
    'Check the wallets that GET /api/v1/profile lists in payout.',
  ),
  FEES_NOT_PAYABLE: entry(
    409,
    false,
    'No invoice can be created for these fees. The message gives the reason.',
    'GET /api/v1/fees lists the fees that you owe. If the operator has set no wallet, ask the operator how to pay.',
  ),
  LIMIT_REACHED: entry(
    409,
    false,
    'The store has reached its limit for this resource.',
    'Remove an existing resource of this kind first.',
  ),
  TRANSACTION_NOT_FINAL: entry(
    409,
    true,
    'This transaction is not on chain yet, or it does not have enough confirmations.',
    'Check the transaction hash, and send the same request again once the transaction is confirmed.',
  ),
  TRANSACTION_ALREADY_USED: entry(
    409,
    false,
    'This transaction has already been used for another purpose.',
    'Send the transaction that was made for this request.',
  ),
  TRANSACTION_NOT_NAMED: entry(
    409,
    false,
    'The transfer cannot be identified without its transaction hash.',
    'Send the transaction hash in txHash.',
  ),
  SESSION_NOT_OPEN: entry(
    409,
    false,
    'The payment session has ended, or a payment for this session is being settled.',
    'Read the payment session. For another payment, create a new payment session.',
  ),
  IDEMPOTENCY_KEY_REUSED: entry(
    422,
    false,
    'This Idempotency-Key was already used for a different request.',
    'Send the same body as in the first request, or use a new key.',
  ),
  RE_ENABLE_FAILED: entry(
    409,
    true,
    'The link cannot be re-enabled now.',
    'Wait until the time in cooldown_until. Only the operator can lift a permanent suspension.',
  ),
  PAYLOAD_TOO_LARGE: entry(413, false, 'The body is larger than allowed.', 'Send a smaller body.'),
  UNSUPPORTED_MEDIA_TYPE: entry(415, false, 'The body is not JSON.', 'Send Content-Type: application/json.'),
  TRANSACTION_MISMATCH: entry(
    422,
    false,
    'The transaction is on chain, but it is not the expected transfer.',
    'Send the transaction that moved this token between these wallets.',
  ),
  TRANSACTION_FAILED: entry(
    422,
    false,
    'The transaction failed on chain and moved no money.',
    'Send the money again, then send the hash of the new transaction.',
  ),
  API_NOT_RESPONDING: entry(
    422,
    true,
    "The seller's API did not respond to the health check.",
    'Start the API, or correct the url of the link.',
  ),
  RATE_LIMIT_EXCEEDED: entry(
    429,
    true,
    'You sent too many requests.',
    'Wait the number of seconds in Retry-After, then try again.',
  ),
  INTERNAL_ERROR: entry(
    500,
    true,
    'Something went wrong in the gateway.',
    'Report the requestId to the operator.',
  ),
  STORE_UNAVAILABLE: entry(
    503,
    true,
    'The database does not respond.',
    'Send the same request again. If the request contains a payment, send the same payment and do not pay again.',
  ),
  CHAIN_UNAVAILABLE: entry(
    503,
    true,
    'The chain could not be reached.',
    'Try again with the same signature.',
  ),
  CHAIN_NOT_CONFIGURED: entry(
    503,
    false,
    'The gateway has no node for this chain.',
    'Ask the operator to set rpcUrls of the network in the configuration.',
  ),
  NOT_READY: entry(503, true, 'The service is not ready.', 'Read the reasons in details.'),
  SERVICE_BUSY: entry(
    503,
    true,
    'The service is at capacity for this operation.',
    'Wait the number of seconds in Retry-After, then try again.',
  ),

  bad_request: entry(
    400,
    false,
    'The request is malformed or ambiguous, so the gateway does not forward it.',
    'Send exactly one Host header, a path without `..`, `//` and escaped slashes, and correct Content-Length and Transfer-Encoding headers.',
  ),
  ambiguous_request: entry(
    400,
    false,
    'The price of the link depends on the request, and the request can be read in two ways that have different prices. Nothing was charged.',
    'Follow the message. Send each part of the request once, in the spelling that the seller documents. Send JSON without duplicate keys.',
  ),
  length_required: entry(
    411,
    false,
    'The price of the link depends on the body, and the request does not state the length of its body. Nothing was charged.',
    'Send the body with Content-Length instead of Transfer-Encoding: chunked.',
  ),
  request_not_sold: entry(
    422,
    false,
    'The price of the link depends on the request, and the seller does not sell this request. Nothing was charged.',
    'Send a request that the seller documents.',
  ),
  link_not_found: entry(404, false, 'No link has this address.', 'Check the seller and the slug.'),
  method_not_allowed: entry(
    405,
    false,
    'The link does not support this method.',
    'Use a method from the Allow header.',
  ),
  request_timeout: entry(408, true, 'The request did not arrive in time.', 'Send the request again.'),
  payment_required: entry(
    402,
    false,
    'The link costs money, and the call had no payment. Or the link is for signed-in wallets, and the call had no sign-in.',
    'Sign a payment for one entry of accepts, or the text of extensions["sign-in-with-x"], and repeat the call with it.',
  ),
  invalid_sign_in: entry(
    400,
    false,
    'The wallet has not signed in. If the gateway could read the header SIGN-IN-WITH-X, the status is 402 and the response has a fresh offer.',
    'Read reason and message. Then sign the text of the fresh offer, and send the signature once and within five minutes.',
  ),
  invalid_payment: entry(
    400,
    false,
    'The payment cannot be used, and nothing was charged. If the gateway could read the payment, the status is 402 and the response has a fresh offer. It is 412 if the payer has to allow Permit2 first.',
    'Read reason and message. Then sign a new payment for one entry of the offer.',
  ),
  payment_already_used: entry(
    409,
    false,
    'The payment was already used for another call or for this call, or the seller owes or has paid a refund.',
    'Follow the message. Pay again only for another call, never twice for the same call.',
  ),
  payment_id_reused: entry(
    409,
    false,
    'Another payment of the same wallet has the payment identifier of this payment. Nothing was charged for this payment.',
    'To get the response of the other payment, repeat its call with it. For another purchase, sign a payment with a new identifier.',
  ),
  payload_too_large: entry(413, false, 'The request body is larger than allowed.', 'Send a smaller body.'),
  unsupported_encoding: entry(
    415,
    false,
    'The gateway does not forward a request body with this Content-Encoding.',
    'Use an encoding from the Accept-Encoding header of the response, or send the body without an encoding.',
  ),
  rate_limited: entry(
    429,
    true,
    'You sent too many requests.',
    'Wait the number of seconds in Retry-After, then try again.',
  ),
  internal_error: entry(
    500,
    true,
    'Something went wrong in the gateway.',
    'Report the requestId to the operator.',
  ),
  upstream_error: entry(
    502,
    true,
    "The seller's API failed.",
    'If the message says that you were charged, ask the seller for a refund. Otherwise, you were not charged. Try again later.',
  ),
  api_suspended: entry(
    503,
    true,
    "The seller's API is failing health checks, so calls of this link are paused.",
    'Try again later. You were not charged.',
  ),
  price_unavailable: entry(
    503,
    true,
    "The price of the link depends on the request, and the seller's server has stated no valid price for this request. Nothing was charged.",
    'Try again later.',
  ),
  upstream_busy: entry(
    503,
    true,
    "The seller's API is at its limit of simultaneous calls.",
    'Try again shortly with the same payment. You were not charged, unless the message says that you were.',
  ),
  link_misconfigured: entry(
    503,
    true,
    'The configured plugins of the gateway cannot serve this link.',
    'Try again later. You were not charged. The operator finds the reason in the log and with tollgate check.',
  ),
  settlement_pending: entry(
    503,
    true,
    'A call with this payment is still running, or the payment was sent and its outcome on chain is not known yet.',
    'Repeat the same call with the same payment. Do not pay again.',
  ),
  settlement_unavailable: entry(
    503,
    true,
    'Payments cannot be settled at the moment.',
    'Try again with the same payment. Nothing was charged.',
  ),
  store_unavailable: entry(
    503,
    true,
    'The database does not respond.',
    'Try again with the same payment. Nothing was charged, unless the database failed while it stored the payment. In that case, the same call returns the response that you paid for.',
  ),
  call_timeout: entry(
    504,
    true,
    'The call did not finish in time, and the gateway ended it.',
    'Repeat the same call with the same payment. The message says whether you were charged.',
  ),
  upstream_timeout: entry(
    504,
    true,
    "The seller's API did not respond in time.",
    'If the message says that you were charged, ask the seller for a refund. Otherwise, you were not charged. Try again later.',
  ),
  loop_detected: entry(
    508,
    false,
    'The API of this link calls the same link again, or the call passed too many links of this gateway.',
    'Ask the seller to set the url of the link to the address of an API. Nothing was charged.',
  ),
} as const satisfies Record<string, CodeEntry>

export type ErrorCode = keyof typeof codes

import { auditActions, auditStatuses } from '../ports/audit.ts'
import { request } from './request.ts'
import { amount, anyObject, choice, type Field, text, wholeNumber } from './schema.ts'

const chain = text('The chain whose wallet is meant.', 64)
const scope = text(
  'The exact name, such as identity.name, identity.email, address.shipping.primary or custom.notes.today. There are no ' +
    'aliases; vault_list_scopes shows yours.',
  200,
)
const currency = text(
  "Symbol of what is moved, such as SOL, ETH, USDC or USDT. Left out: the chain's own coin.",
  64,
)
const recipient = text('Who gets it, by wallet address. What the bytes pay must go there.', 128)
const unsignedTx: Field<string | Readonly<Record<string, unknown>>> = {
  type: ['string', 'object'],
  description: 'The complete transaction without signatures: base64 for Solana, 0x RLP or JSON for EVM.',
}
const typedData = anyObject(
  'EIP-712: types, primaryType, domain and message, as eth_signTypedData_v4 takes them.',
)
const message = text('The text to sign.', 65_536)
const encoding = choice(['utf8', 'hex', 'base64'], 'How message is written. Default utf8.')

/** What any request of the pipeline may have, as the header Idempotency-Key or by this name. */
export const keyRequest = request({
  'idempotency_key?': text(
    'A name of your own for this one request, 1 to 128 visible characters: repeated under it, it is done once.',
    128,
  ),
})

/** `GET /address/:chain` */
export const addressRequest = request({ chain })

/** `POST /v1/vault/read`; the same for delete. */
export const scopeRequest = request({ scope })

const written = { scope, value: text('What to store.', 65_536) }

/** `POST /v1/vault/write` */
export const writeRequest = request(written)

/** The same by the owner, who may say with a credential how it is used. */
export const ownerWriteRequest = request({
  ...written,
  'settings?': anyObject('How a credential is used: inject?, rules?, allow_private?'),
})

/** `POST /v1/vault/sign` */
export const signRequest = request({
  chain,
  unsigned_tx: unsignedTx,
  amount: amount('What the transaction moves, in whole units: a number, or a decimal text for many digits.'),
  'currency?': currency,
  'recipient?': recipient,
})

/** `POST /v1/vault/sign-message` */
export const signMessageRequest = request({ chain, message, 'encoding?': encoding })

/** `POST /v1/vault/sign-typed-data` */
export const signTypedDataRequest = request({
  chain,
  typed_data: typedData,
  'amount?': amount('What the data lets be moved, in whole units.'),
  'currency?': currency,
  'recipient?': recipient,
})

/** `POST /v1/vault/preview`: the fields of one of the three above, whose claim may be left out. */
export const previewRequest = request({
  chain,
  'unsigned_tx?': unsignedTx,
  'message?': message,
  'encoding?': encoding,
  'typed_data?': typedData,
  'amount?': amount('The amount that you would claim, in whole units.'),
  'currency?': currency,
  'recipient?': recipient,
})

/** `POST /v1/vault/sign-payment` */
export const paymentRequest = request({
  payment_required: anyObject('What the seller asks for: x402Version, accepts, resource.'),
  max_amount: amount('The most to pay, in whole units of the currency that is asked for.'),
  'network?': text('The CAIP-2 network to pay on, when several are offered, such as eip155:8453.', 64),
  'url?': text('The address that you called.', 8_192),
})

const headers: Field<Readonly<Record<string, string>>> = {
  type: 'object',
  additionalProperties: { type: 'string' },
  description: 'Headers beside the credential.',
}
const body: Field<string | object> = {
  type: ['string', 'object', 'array'],
  description: 'The body: a text, or an object or a list that is sent as JSON.',
}

/** `POST /v1/vault/call` */
export const callRequest = request({
  scope: text('The credential, such as credentials.api.github.', 200),
  method: text('The HTTP method: GET, HEAD, POST, PUT, PATCH or DELETE.', 16),
  url: text('The complete address, https.', 8_192),
  'headers?': headers,
  'body?': body,
})

/** `POST /v1/vault/budget/check` */
export const budgetRequest = request({
  chain,
  amount: amount('The amount in whole units.'),
  'currency?': currency,
  'recipient?': text('Who would get it: recipients can have limits of their own.', 128),
})

/** A question to the owner by its id. */
export const approvalRequest = request({ approval_id: text('apr_…, of the pending result.', 64) })

const wanted = {
  'action?': choice(auditActions, 'Only this kind.'),
  'status?': choice(auditStatuses, 'Only what ended, or stands, like this.'),
  'scope?': text('Only this scope.', 256),
  'since?': text('ISO 8601, inclusive.', 256),
  'until?': text('ISO 8601, exclusive.', 256),
  'limit?': wholeNumber(1, 500, 'At most so many. Default 100.'),
  'cursor?': text('Of the page before.', 256),
}

/** What an agent asks of its own activity. */
export const activityRequest = request(wanted)

/** `GET /v1/vault/activity`, whose query may name an agent. */
export const activityQuery = request({ ...wanted, 'agent?': text('Only this agent.', 256) })

/** Nothing can be said beside the request itself. */
export const bareRequest = request({})

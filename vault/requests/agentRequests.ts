import { auditActions, auditStatuses } from '../ports/audit.ts'
import { agentRequest, request } from './request.ts'
import { amount, anyObject, choice, type Field, objectOrText, text, wholeNumber } from './schema.ts'

const chain = text(undefined, 64)
const scope = text('Exact, such as identity.name or address.shipping.primary.', 200)
const currency = text("Default: the chain's native asset.", 64)
const recipient = text('The recipient that the bytes pay.', 128)
const unsignedTx = objectOrText('Solana: base64. EVM: 0x RLP, or JSON.')
const typedData = objectOrText('JSON of {types, primaryType, domain, message}.')
const message = text(undefined, 65_536)
const encoding = choice(['utf8', 'hex', 'base64'], 'Default utf8.')

/** A field of every pipeline request. The Idempotency-Key header is accepted too. */
export const keyRequest = agentRequest({
  'idempotency_key?': text(undefined, 128),
})

/** `GET /address/:chain` */
export const addressRequest = agentRequest({ chain })

/** `POST /v1/vault/read` and `POST /v1/vault/delete`. */
export const scopeRequest = agentRequest({ scope })

const written = { scope, value: text(undefined, 65_536) }

/** `POST /v1/vault/write` */
export const writeRequest = agentRequest(written)

/** The same as `writeRequest`, for the owner, who may also set how a credential is used. */
export const ownerWriteRequest = request({
  ...written,
  'settings?': anyObject('How a credential may be used: inject?, rules?, allow_private?'),
})

/** `POST /v1/vault/sign` */
export const signRequest = agentRequest({
  chain,
  unsigned_tx: unsignedTx,
  amount: amount('In whole units: 1.5, not 1500000.'),
  'currency?': currency,
  'recipient?': recipient,
})

/** `POST /v1/vault/sign-message` */
export const signMessageRequest = agentRequest({ chain, message, 'encoding?': encoding })

/** `POST /v1/vault/sign-typed-data` */
export const signTypedDataRequest = agentRequest({
  chain,
  typed_data: typedData,
  'amount?': amount('In whole units.'),
  'currency?': currency,
  'recipient?': recipient,
})

/** `POST /v1/vault/preview`, with the fields of one of the three requests above. The claim may be omitted. */
export const previewRequest = agentRequest({
  chain,
  'unsigned_tx?': objectOrText(),
  'message?': message,
  'encoding?': encoding,
  'typed_data?': objectOrText(),
  'amount?': amount(),
  'currency?': text(undefined, 64),
  'recipient?': text(undefined, 128),
})

/** `POST /v1/vault/sign-payment` */
export const paymentRequest = agentRequest({
  payment_required: objectOrText('The 402: JSON, or PAYMENT-REQUIRED.'),
  max_amount: amount('In whole units.'),
  'network?': text('CAIP-2.', 64),
  'url?': text('The called URL.', 8_192),
  // Pays by the offer's payment channel. A description of each tool's field would make the list of tools too long.
  'voucher_total?': text(),
  'deposit?': text(),
})

const headers = objectOrText('JSON, without the credential.')
const body: Field<string | object> = {
  type: ['string', 'object', 'array'],
  description: 'JSON, or text with its content-type in headers.',
}

/** `POST /v1/vault/call` */
export const callRequest = agentRequest({
  scope: text('credentials.api.…', 200),
  method: text(undefined, 16),
  url: text(undefined, 8_192),
  'headers?': headers,
  'body?': body,
})

/** `POST /v1/vault/budget/check` */
export const budgetRequest = agentRequest({
  chain,
  amount: amount('In whole units.'),
  'currency?': currency,
  'recipient?': text(undefined, 128),
})

/** An approval by its id. */
export const approvalRequest = agentRequest({ approval_id: text(undefined, 64) })

const wanted = {
  'action?': choice(auditActions),
  'status?': choice(auditStatuses),
  'scope?': text(undefined, 256),
  'since?': text('ISO 8601, inclusive.', 256),
  'until?': text('ISO 8601, exclusive.', 256),
  'limit?': wholeNumber(1, 500, 'Default 100, at most 500.'),
  'cursor?': text(undefined, 256),
}

/** An agent's query of its own activity. */
export const activityRequest = agentRequest(wanted)

/** `GET /v1/vault/activity`, where the query may name an agent. */
export const activityQuery = agentRequest({ ...wanted, 'agent?': text('Only this agent.', 256) })

/** A request without fields. */
export const bareRequest = agentRequest({})

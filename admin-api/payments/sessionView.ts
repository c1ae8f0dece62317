import { isSameAddress } from '../../core/domain/address.ts'
import { debtorOf } from '../../core/domain/ledger.ts'
import type { Link } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf } from '../../core/domain/network.ts'
import { unusualStatuses } from '../../core/domain/purchase.ts'
import { isProcessing, type Session, sessionStatuses, statusOf } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'
import type { Api } from '../deps.ts'
import { exactly, field, isoTime } from '../http/responses.ts'
import { currency } from '../links/linkBodies.ts'
import type { CreatedSession } from './createSession.ts'

const status = { enum: sessionStatuses }
const item = exactly({
  title: field.text(),
  description: field.text(),
  amount: field.text('The amount in USDC, such as `49.99`.'),
})

/** The response to the creation (marketplace interface, section 2). */
export const createdSessionSchema = exactly({
  id: field.uuid,
  clientSecret: field.text(
    'The client secret for the buyer, `pscs_…`. Only the response to the creation contains it.',
  ),
  status,
  amount: field.text('The amount in USDC, such as `49.99`.'),
  currency: { const: currency },
  expiresAt: { ...field.time, description: 'The end of the session, 30 minutes after its creation.' },
  checkoutUrl: field.text('The page on which the buyer pays.'),
  item,
  merchant: exactly({ username: field.text() }),
})

/** Every other response. It has the fields of the marketplace interface, and those that the checkout page shows. */
export const sessionSchema = {
  ...exactly({
    id: field.uuid,
    status,
    amount: field.text('The amount in USDC, with 18 decimals.'),
    currency: { const: currency },
    purchaseId: { ...field.textOrNull('Null until the session is paid.'), format: 'uuid' },
    purchaseStatus: {
      enum: ['delivered', ...unusualStatuses, null],
      description:
        "The current state of the purchase. `reorged` means that the buyer's transfer has left the chain, so the seller does not have the money unless the transfer returns.",
    },
    txHash: field.textOrNull('Null until the session is paid.'),
    chain: { enum: ['base', 'solana', null] },
    buyerWallet: field.textOrNull(),
    link: {
      ...exactly({
        id: field.uuid,
        title: field.text(),
        slug: field.textOrNull('Null for a stealth link.'),
        linkType: { enum: ['api', 'standard'] },
        url: field.textOrNull(
          'For a paid session of a `standard` link, the URL to which the buyer is redirected.',
        ),
      }),
      type: ['object', 'null'],
    },
    merchant: exactly({
      username: field.text('The username of the store. Empty if the session pays the operator.'),
      displayName: field.text(),
    }),
    expiresAt: field.time,
    processing: {
      ...field.flag,
      description:
        'True while a payment for the session is being settled. The session does not expire in this time.',
    },
    item,
    successUrl: field.textOrNull(),
    cancelUrl: field.textOrNull(),
    clientReferenceId: field.textOrNull(),
    allowedOrigin: field.textOrNull(),
  }),
}

/** {@link sessionSchema} for the seller, who also gets the stored metadata. */
export const ownSessionSchema = {
  ...sessionSchema,
  properties: {
    ...sessionSchema.properties,
    metadata: { type: 'object', description: 'Only with the API key.' },
    createdAt: { ...field.time, description: 'Only with the API key.' },
  },
}

/** A price as the marketplace interface shows it at creation. Everywhere else it is a `longAmount`. */
const shortAmount = (price: string) => formatAmount(parseAmount(price, 6), 6, 2)
const longAmount = (price: string) => formatAmount(parseAmount(price, 18), 18, 18)

const itemOf = ({ title, description, price }: Session) => ({
  title,
  description,
  amount: shortAmount(price),
})

/** The page on which a buyer pays a session. */
export const checkoutUrlOf = (publicUrl: string, id: string, clientSecret: string): string =>
  `${publicUrl}/pay/checkout/${id}?cs=${clientSecret}`

export const toCreatedSession = (
  { session, clientSecret }: CreatedSession,
  publicUrl: string,
  username: string,
  nowMs: number,
) => ({
  id: session.id,
  clientSecret,
  status: statusOf(session, nowMs),
  amount: shortAmount(session.price),
  currency,
  expiresAt: isoTime(session.expiresAtMs),
  checkoutUrl: checkoutUrlOf(publicUrl, session.id, clientSecret),
  item: itemOf(session),
  merchant: { username },
})

export type SessionView = ReturnType<typeof toSessionView>

/** A session as its buyer sees it. */
export function toSessionView(
  session: Session,
  { username, displayName }: Pick<Store, 'username' | 'displayName'>,
  link: Link | undefined,
  nowMs: number,
) {
  const { paid } = session
  return {
    id: session.id,
    status: statusOf(session, nowMs),
    amount: longAmount(session.price),
    currency,
    purchaseId: paid?.purchaseId ?? null,
    purchaseStatus: paid?.status ?? null,
    txHash: paid?.txHash ?? null,
    chain: paid === null ? null : chainNameOf(paid.network),
    buyerWallet: paid?.buyerWallet ?? null,
    link: link === undefined ? null : toLinkOf(link, session),
    merchant: { username, displayName },
    expiresAt: isoTime(session.expiresAtMs),
    processing: isProcessing(session),
    item: itemOf(session),
    successUrl: session.successUrl,
    cancelUrl: session.cancelUrl,
    clientReferenceId: session.clientReferenceId,
    allowedOrigin: session.allowedOrigin,
  }
}

/**
 * The link of a session. The address of a stealth link is a secret, and the target of a `standard` link is the product. So both may
 * be absent.
 */
const toLinkOf = ({ id, title, slug, isStealth, linkType, url }: Link, { state }: Session) => ({
  id,
  title,
  slug: isStealth ? null : slug,
  linkType,
  url: linkType === 'standard' && state === 'confirmed' ? url : null,
})

/** The payee. It is a store with its current wallets. For fees it is the service itself, with the wallet of the invoice. */
export async function payeeOf(
  { stores, serviceName }: Pick<Api, 'stores' | 'serviceName'>,
  { storeId, payout }: Pick<Session, 'storeId' | 'payout'>,
): Promise<Pick<Store, 'username' | 'displayName' | 'payout'> | undefined> {
  if (debtorOf(storeId) === undefined) return stores.find(storeId)
  return { username: '', displayName: serviceName, payout }
}

/** Like {@link toSessionView}, but reads the store's data itself. */
export async function viewOf(
  api: Pick<Api, 'stores' | 'serviceName' | 'links' | 'clock'>,
  session: Session,
): Promise<SessionView> {
  const [payee, link] = await Promise.all([
    payeeOf(api, session),
    session.linkId === null ? undefined : api.links.find(session.linkId),
  ])
  if (payee === undefined) throw new Error(`Expected the store of session ${session.id} to be there.`)
  return toSessionView(session, payee, link, api.clock.now())
}

/** A session as its seller sees it. */
export const toOwnView = (view: SessionView, { metadata, createdAtMs }: Session) => ({
  ...view,
  metadata,
  createdAt: isoTime(createdAtMs),
})

/** The payment methods that a session accepts. These are all, or only those of the token that the session asks for. */
export const askedTerms = <Terms extends Pick<PaymentRequirements, 'network' | 'asset' | 'amount'>>(
  { asks }: Pick<Session, 'asks'>,
  terms: readonly Terms[],
): readonly Terms[] =>
  asks === null
    ? terms
    : terms
        .filter(
          ({ network, asset }) =>
            network === asks.network && isSameAddress(familyOf(network), asset, asks.asset),
        )
        .map((one) => ({ ...one, amount: String(asks.amountAtomic) }))

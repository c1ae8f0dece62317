import { debtorOf } from '../../core/domain/ledger.ts'
import type { Link } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf } from '../../core/domain/network.ts'
import { unusualStatuses } from '../../core/domain/purchase.ts'
import { isProcessing, type Session, sessionStatuses, statusOf } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { currency } from '../links/linkBodies.ts'
import { exactly, flag, text, textOrNull, time, uuid } from '../schema/answers.ts'
import type { CreatedSession } from './createSession.ts'

const status = { enum: sessionStatuses }
const item = exactly({
  title: text(),
  description: text(),
  amount: text('USDC, such as `49.99`.'),
})

/** Of the creation (marketplace interface, section 2). */
export const createdSessionSchema = exactly({
  id: uuid,
  clientSecret: text('`pscs_…`; for the buyer. Shown once.'),
  status,
  amount: text('USDC, such as `49.99`.'),
  currency: { const: currency },
  expiresAt: { ...time, description: '30 minutes after its creation.' },
  checkoutUrl: text('The page on which the buyer pays.'),
  item,
  merchant: exactly({ username: text() }),
})

/** Of every other answer: the fields of the document, and what the checkout's page shows. */
export const sessionSchema = {
  ...exactly({
    id: uuid,
    status,
    amount: text('USDC, with 18 decimals.'),
    currency: { const: currency },
    purchaseId: { ...textOrNull('Set once it is paid.'), format: 'uuid' },
    purchaseStatus: {
      enum: ['delivered', ...unusualStatuses, null],
      description:
        'How that purchase stands now. `reorged`: its transfer has left the chain, and there is no money behind it until it is back.',
    },
    txHash: textOrNull('Set once it is paid.'),
    chain: { enum: ['base', 'solana', null] },
    buyerWallet: textOrNull(),
    link: {
      ...exactly({
        id: uuid,
        title: text(),
        slug: textOrNull('Null for a stealth link.'),
        linkType: { enum: ['api', 'standard'] },
        url: textOrNull('Of a `standard` link, once it is paid: where the buyer is led.'),
      }),
      type: ['object', 'null'],
    },
    merchant: exactly({ username: text('Empty where the service itself is paid.'), displayName: text() }),
    expiresAt: time,
    processing: { ...flag, description: 'A payment is being settled: time does not end it meanwhile.' },
    item,
    successUrl: textOrNull(),
    cancelUrl: textOrNull(),
    clientReferenceId: textOrNull(),
    allowedOrigin: textOrNull(),
  }),
}

/** The same for the seller, who also gets back what was kept with it. */
export const ownSessionSchema = {
  ...sessionSchema,
  properties: {
    ...sessionSchema.properties,
    metadata: { type: 'object', description: 'For the API key only.' },
    createdAt: { ...time, description: 'For the API key only.' },
  },
}

/** A price as the document shows it, and as it shows it elsewhere. */
const shortAmount = (price: string) => formatAmount(parseAmount(price, 6), 6, 2)
const longAmount = (price: string) => formatAmount(parseAmount(price, 18), 18, 18)

const itemOf = ({ title, description, price }: Session) => ({
  ...{ title, description, amount: shortAmount(price) },
})

/** The page on which a session is paid. */
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

/** The address of a stealth link is a secret, and what a `standard` link leads to is what is sold. */
const toLinkOf = ({ id, title, slug, isStealth, linkType, url }: Link, { state }: Session) => ({
  ...{ id, title, slug: isStealth ? null : slug, linkType },
  url: linkType === 'standard' && state === 'confirmed' ? url : null,
})

/** Who is paid: a store by its wallets of now; for fees that a store owes the service itself, by the wallet of the invoice. */
export async function payeeOf(
  { stores, serviceName }: Pick<Api, 'stores' | 'serviceName'>,
  { storeId, payout }: Pick<Session, 'storeId' | 'payout'>,
): Promise<Pick<Store, 'username' | 'displayName' | 'payout'> | undefined> {
  if (debtorOf(storeId) === undefined) return stores.find(storeId)
  return { username: '', displayName: serviceName, payout: payout ?? { base: null, solana: null } }
}

/** {@link toSessionView} with what it needs from the store. */
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
  ...{ metadata, createdAt: isoTime(createdAtMs) },
})

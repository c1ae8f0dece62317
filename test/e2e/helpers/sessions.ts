import type { PaymentRequired } from '@x402/core/types'
import type { Session } from '../../../core/domain/session.ts'
import { type Bought, type Buyer, read } from './buyers.ts'

/** A payment session as its creation answered it. */
export interface OpenSession {
  readonly id: string
  readonly clientSecret: string
  /** Where it is paid. */
  readonly payUrl: string
}

/** Asks for a payment through the API of a running gateway. */
export async function openSession(url: string, apiKey: string, body: object): Promise<OpenSession> {
  const response = await fetch(`${url}/api/v1/payments`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
    body: JSON.stringify(body),
  })
  const { data, error } = (await response.json()) as { data?: Session & OpenSession; error?: unknown }
  if (data === undefined) throw new Error(`no session was made: ${JSON.stringify(error)}`)
  const { id, clientSecret } = data
  return { id, clientSecret, payUrl: `${url}/api/v1/payments/${id}/pay?cs=${clientSecret}` }
}

/** Asks for a session's offer and signs it with the client's own code, and sends nothing. */
export async function signSession({ payUrl }: OpenSession, buyer: Buyer): Promise<string> {
  const offer = (await (await fetch(payUrl, { method: 'POST' })).json()) as PaymentRequired
  const accepts = offer.accepts.filter(({ network }) => network === buyer.chain.network)
  return buyer.signOffer({ ...offer, accepts })
}

/** Pays a session with a payment that was signed before. */
export const paySessionWith = async ({ payUrl }: OpenSession, payment: string): Promise<Bought> =>
  read(await fetch(payUrl, { method: 'POST', headers: { 'payment-signature': payment } }))

/** How it stands for its buyer. */
export async function readSession({ payUrl }: OpenSession): Promise<{ readonly [name: string]: unknown }> {
  const response = await fetch(payUrl.replace('/pay?', '?'))
  return ((await response.json()) as { data: { [name: string]: unknown } }).data
}

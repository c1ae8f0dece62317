import { isPaid, type Link, type Payout } from '../../core/domain/link.ts'
import { networkTitle } from '../../core/domain/network.ts'
import { type ErrorDetail, isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { canBePaid } from '../profile/payout.ts'
import { validationError } from '../schema/validationError.ts'
import { probeEvent, probeLink } from './linkHealth.ts'

type Candidate = Pick<Link, 'id' | 'url' | 'price' | 'linkType' | 'upstreamHeadersSealed'>

/** A stealth link is never listed, for its address is a secret: clients that say both mean stealth. */
export const stealthWins = <L extends Pick<Link, 'isPublic' | 'isStealth'>>(link: L): L =>
  link.isPublic && link.isStealth ? { ...link, isPublic: false } : link

/**
 * Refuses addresses that calls and webhooks could never be sent to, free links' too: their hosts are looked up now. A
 * `standard` link's `url` is the buyer's to open, not ours.
 *
 * @param was the link as it is stored; what is the same was judged when it was new
 * @throws `VALIDATION_ERROR` that names every field that is wrong
 */
export async function refuseUncallable(
  { egress }: Pick<Api, 'egress'>,
  { url, webhookUrl, linkType }: Pick<Link, 'url' | 'webhookUrl' | 'linkType'>,
  was?: Pick<Link, 'url' | 'webhookUrl' | 'linkType'>,
): Promise<void> {
  const judge = async (path: string, given: string): Promise<ErrorDetail[]> => {
    try {
      await egress.judgeUrl(given)
      return []
    } catch (error) {
      if (!isTollgateError(error)) throw error
      return [{ path, code: error.details?.[0]?.code ?? 'url', message: error.message }]
    }
  }
  const isCalled = linkType !== 'standard'
  const isNew = url !== was?.url || linkType !== was.linkType
  const problems = await Promise.all([
    isCalled && isNew ? judge('url', url) : [],
    webhookUrl !== null && webhookUrl !== was?.webhookUrl ? judge('webhookUrl', webhookUrl) : [],
  ])
  if (problems.flat().length > 0) throw validationError(problems.flat())
}

/**
 * Refuses a new host that would get the credential stored for the old one: an API key that leaked could send the seller's
 * credential to a host of an attacker.
 *
 * @param fields what changes of the link
 * @throws `VALIDATION_ERROR`
 */
export function refuseMovedCredential(
  was: Pick<Link, 'url' | 'upstreamHeadersSealed'>,
  fields: Partial<Pick<Link, 'url' | 'upstreamHeadersSealed'>>,
): void {
  if (was.upstreamHeadersSealed === null || fields.upstreamHeadersSealed !== undefined) return
  const [from, to] = [new URL(was.url).origin, new URL(fields.url ?? was.url).origin]
  if (from === to) return
  const message = `The stored upstreamHeaders were given for ${from} and are not sent to ${to}. Send upstreamHeaders again together with the new url, or {} to drop them.`
  throw validationError([{ path: 'upstreamHeaders', code: 'required', message }])
}

/** Refuses a paid link that nobody could be paid for. @throws `VALIDATION_ERROR` */
export function refuseUnpayable(api: Api, payout: Payout, link: Pick<Link, 'price'>): void {
  if (!isPaid(link) || canBePaid(api, payout)) return
  const networks = [...new Set(api.assets.map((asset) => networkTitle(asset.network)))].join(', ')
  const message = `A paid link needs a wallet to be paid to, on one of ${networks || 'the networks (none is configured)'}. Name it with PATCH /api/v1/profile {"payout":{"base":"0x…"}} or {"payout":{"solana":"…"}}, signed by the store's wallet (POST /api/v1/profile/payout/nonce).`
  throw validationError([{ path: 'price', code: 'no_payout_wallet', message }])
}

/**
 * Checks the health of a paid link's API before the link is saved (marketplace interface, section 4), and puts what it
 * saw on the link's timeline once {@link saved} says that there is a link. A `standard` link has no API to check.
 *
 * @throws `API_NOT_RESPONDING` that says what happened
 */
export async function refuseUnreachable(api: Api, link: Candidate): Promise<{ saved(): Promise<void> }> {
  if (!isPaid(link) || link.linkType === 'standard') return { saved: async () => {} }
  const report = await probeLink(api, link)
  if (!report.ok) {
    const message = `The API behind this link did not pass the health check. ${report.detail}`
    throw new TollgateError(
      'API_NOT_RESPONDING',
      `${message} A paid link is saved once a GET of its url is answered with a status below 500.`,
      { details: [{ path: 'url', code: 'not_responding', message }] },
    )
  }
  return { saved: () => api.links.addHealthEvent(probeEvent(link.id, report, api.clock.now())) }
}

import type { NetworkId } from '../../../core/domain/network.ts'
import type { FacilitatorClient } from './facilitatorClient.ts'

/** Whether a facilitator settles `exact` payments of x402 v2 on a network, and what offers there must carry. */
export type SupportedKind =
  | { readonly ok: true; readonly extra: Readonly<Record<string, unknown>> }
  /** `isAnswer`: it answered, and the answer was no; otherwise it could not be asked. */
  | { readonly ok: false; readonly isAnswer: boolean; readonly message: string }

export async function askSupported(
  client: FacilitatorClient,
  network: NetworkId,
  timeoutMs: number,
): Promise<SupportedKind> {
  const answer = await client.get('supported', timeoutMs)
  if (answer.arrived !== 'answered') return { ok: false, isAnswer: false, message: answer.message }
  const kinds = answer.body['kinds']
  if (answer.status !== 200 || !Array.isArray(kinds)) {
    return { ok: false, isAnswer: false, message: `HTTP ${answer.status} without a list of kinds` }
  }
  const kind = kinds.find(
    (one): one is { extra?: unknown } =>
      typeof one === 'object' &&
      one !== null &&
      one.x402Version === 2 &&
      one.scheme === 'exact' &&
      (one.network === network || one.network === `${network.split(':')[0]}:*`),
  )
  if (kind === undefined) {
    return { ok: false, isAnswer: true, message: `it does not settle "exact" of x402 v2 on ${network}` }
  }
  const { extra } = kind
  return {
    ok: true,
    extra: typeof extra === 'object' && extra !== null ? (extra as Record<string, unknown>) : {},
  }
}

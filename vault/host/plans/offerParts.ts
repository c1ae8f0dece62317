import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import { grantFor } from '../../agents/grant.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import type { VaultDeps } from '../deps.ts'
import type { VaultCall } from '../vaultCall.ts'

/** The chains that are enabled and for which this agent has a grant. */
export function networksFor({ who }: VaultCall, { enabled, assets }: VaultDeps): ReadonlySet<string> {
  const open = enabled.filter(
    (name) => who.kind !== 'agent' || grantFor(who.agent.grants, 'sign', `wallet.${name}`) !== undefined,
  )
  return new Set(open.map((name) => assets.chains.of(name).network))
}

/** The offer formatted for reading. If the agent sent it as a base64 header, the size and hash are those of the header. */
export function offerPart(offer: unknown): PartDraft {
  const content = typeof offer === 'string' ? offer : JSON.stringify(offer)
  const read = parseStrictJson(
    typeof offer === 'string' ? Buffer.from(offer, 'base64').toString('utf8') : content,
  )
  const part = { title: 'Offer', content, by: 'seller', isRaw: true } as const
  return read.ok ? { ...part, shownAs: JSON.stringify(read.value, null, 2), format: 'json' } : part
}

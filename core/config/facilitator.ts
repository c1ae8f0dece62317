import type { FacilitatorConfig } from './types.ts'

/** Caps on what a settlement may cost: of the gateway's own key, or of the facilitator's offers on Solana. */
type Caps = Omit<FacilitatorConfig, 'url' | 'headers' | 'privateKey' | 'privateKeys'>

/** Who settles on a network: this gateway with keys of its own, or another server. */
export type FacilitatorChoice =
  | ({ readonly kind: 'embedded'; readonly privateKeys: readonly string[] } & Caps)
  | ({ readonly kind: 'remote'; readonly url: string; readonly headers: FacilitatorConfig['headers'] } & Caps)

/** Tells the two apart in a checked configuration, which has exactly one of `privateKey`, `privateKeys` and `url`. */
export function facilitatorChoice(config: FacilitatorConfig): FacilitatorChoice {
  const { url, headers, privateKey, privateKeys, ...caps } = config
  if (url !== undefined) return { kind: 'remote', url: url.replace(/\/+$/, ''), headers, ...caps }
  return { kind: 'embedded', privateKeys: privateKeys ?? [privateKey!], ...caps }
}

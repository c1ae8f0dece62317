import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { AssetTable } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { VaultChain } from '../effects/chains.ts'
import type { PaymentRpc } from '../effects/payment.ts'
import type { VaultEgress } from '../ports/egress.ts'
import type { Vault } from '../ports/vault.ts'
import type { Rules } from './rules.ts'

/** What the host is put together from. */
export interface VaultParts {
  readonly vault: Vault
  readonly chains: readonly ChainPlugin[]
  /** The chains that agents may name, in the order in which they are shown. */
  readonly enabled: readonly VaultChain[]
  readonly assets: AssetTable
  readonly rules: Rules
  readonly egress: VaultEgress
  /** Nodes for payments on Solana, which need a recent block. */
  readonly rpc: PaymentRpc
  readonly clock: Clock
  readonly log: Log
}

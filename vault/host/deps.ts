import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import type { AssetTable, VaultChain } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { PaymentRpc } from '../effects/payment.ts'
import type { VaultEgress } from '../ports/egress.ts'
import type { Vault } from '../ports/vault.ts'
import type { ChargeChecks } from './chargeChecks.ts'
import type { StoredRules } from './ownerRules.ts'

/** The dependencies of the host. */
export interface VaultDeps {
  readonly vault: Vault
  readonly chains: readonly ChainPlugin[]
  /** The chains that agents may name, in display order. */
  readonly enabled: readonly VaultChain[]
  readonly assets: AssetTable
  readonly rules: StoredRules
  readonly egress: VaultEgress
  /** RPC nodes for payments on Solana, which need a recent block hash. */
  readonly rpc: PaymentRpc
  /** Gives back what signed payments did not cost. */
  readonly charges: ChargeChecks
  readonly clock: Clock
  readonly log: Log
}

import { formatAmount } from '../../core/domain/money.ts'
import { type Job, startJob } from '../../core/jobs/job.ts'
import type { Log } from '../../core/ports/log.ts'
import { isRpcError, RpcRefused } from '../../core/rpc/post.ts'
import type { AssetTable, VaultChain } from '../effects/assets.ts'
import type { ChainPlugin } from '../effects/chainPlugin.ts'
import type { ChargeRpc, OpenClaim, PaymentClaim, ProvedCharge } from '../effects/payment.ts'
import type { AuditEvent } from '../ports/audit.ts'
import type { Vault } from '../ports/vault.ts'

/** Pause between two checks while the vault is unlocked, in ms. */
const EVERY_MS = 60_000

export interface ChargeCheckDeps {
  readonly vault: Pick<Vault, 'state' | 'budget' | 'audit'>
  readonly chains: readonly ChainPlugin[]
  readonly enabled: readonly VaultChain[]
  readonly assets: AssetTable
  readonly chargeRpc: ChargeRpc
  readonly log: Log
  /** An agent's current name. Undefined for an unknown id. */
  readonly nameOf: (agentId: string) => string | undefined
}

/** A signed payment, as the budget's journal has it until it is known what the payment has cost. */
interface NotedPayment extends OpenClaim {
  readonly agentId: string
}

/** The result of a check, for the owner. */
export interface ChargeReport {
  /** What the check gave back. */
  readonly given_back: readonly {
    readonly agent: string
    readonly chain: string
    readonly amount: string
    readonly currency: string
    readonly transaction: string | null
  }[]
  /** Payments of today about which nothing is proved yet. */
  readonly open: number
  /** Why a chain could not be checked, one sentence each. */
  readonly problems: readonly string[]
}

/**
 * Gives back to the budgets what signed payments counted and did not cost, once the owner's node of the chain proves it. No response of an
 * agent or a seller matters. A check never delays a request, and does not count as use of the vault, so that the vault still locks.
 */
export class ChargeChecks {
  readonly #deps: ChargeCheckDeps
  /** The newest block that each chain's node has named as final. */
  readonly #finalBlocks = new Map<VaultChain, number>()
  readonly #job: Job | undefined
  #report: ChargeReport = { given_back: [], open: 0, problems: [] }

  constructor(deps: ChargeCheckDeps) {
    this.#deps = deps
    if (!this.hasNode) return
    const { log } = deps
    const run = () => this.#run()
    this.#job = startJob({ name: 'check what payments cost', everyMs: EVERY_MS, startsNow: true, log, run })
  }

  /** Whether the owner has named a node of any chain on which the vault signs. */
  get hasNode(): boolean {
    return this.#deps.enabled.some((chain) => this.#deps.chargeRpc(chain) !== undefined)
  }

  /**
   * Notes a signed payment before its signature leaves the vault. Does nothing on a chain without a node.
   *
   * @param spendId the payment's reservation. Null if none counts it
   */
  note(spendId: string | null, agentId: string, claim: PaymentClaim | undefined): void {
    const { chargeRpc, vault } = this.#deps
    if (spendId === null || claim === undefined || chargeRpc(claim.chain) === undefined) return
    const sinceBlock = this.#finalBlocks.get(claim.chain) ?? null
    vault.budget.notePartial(spendId, { agentId, claim, sinceBlock } satisfies NotedPayment)
  }

  /** Checks all payments of today now. */
  async checkNow(): Promise<ChargeReport> {
    await this.#job?.runNow()
    return this.#report
  }

  /** Ends the checks. A check that waits for a node is left alone, because it can write nothing once the vault is closed. */
  close(): void {
    void this.#job?.stop()
  }

  async #run(): Promise<void> {
    const { vault, enabled } = this.#deps
    if (vault.state.locked) return
    const given: ChargeReport['given_back'][number][] = []
    const problems: string[] = []
    let failure: unknown
    for (const chain of enabled) {
      try {
        given.push(...(await this.#check(chain)))
      } catch (error) {
        failure ??= error
        problems.push(`The payments on ${chain} were not checked. ${problemOf(error)}`)
      }
    }
    this.#report = { given_back: given, open: vault.budget.partial().length, problems }
    if (failure !== undefined) throw failure
  }

  async #check(chain: VaultChain): Promise<ChargeReport['given_back']> {
    const { vault, chains, assets, chargeRpc } = this.#deps
    const rpc = chargeRpc(chain)
    const plugin = chains.find(({ family }) => family === assets.chains.of(chain).family)
    if (rpc === undefined || plugin?.finalBlock === undefined || plugin.proveCharges === undefined) return []
    const noted = vault.budget
      .partial()
      .map(({ id, claim }) => ({ id, ...(claim as NotedPayment) }))
      .filter(({ claim }) => claim.chain === chain)
    const final = await plugin.finalBlock(rpc)
    this.#finalBlocks.set(chain, final.number)
    if (noted.length === 0) return []
    const proved = await plugin.proveCharges(rpc, noted, final)
    const given: ChargeReport['given_back'][number][] = []
    for (const [i, payment] of noted.entries()) {
      const charge = proved[i]
      const event = charge && this.#eventOf(payment, charge)
      if (event === undefined || !(await this.#giveBack(payment, charge!, event))) continue
      const { agent, amount = '', currency = '' } = event
      given.push({ agent, chain, amount, currency, transaction: charge!.transaction })
    }
    return given
  }

  /** Gives back what a payment did not cost. @returns false if nothing was given back */
  async #giveBack(
    { id, claim }: { readonly id: string; readonly claim: PaymentClaim },
    { charged }: ProvedCharge,
    event: AuditEvent,
  ): Promise<boolean> {
    const { state, budget, audit } = this.#deps.vault
    if (state.locked) return false
    const rest = BigInt(claim.most) - charged
    // The budget and the log are changed in one turn, so both changes are on disk or none is.
    const counted = budget.giveBack(id, rest)
    if (counted === undefined) return false
    await Promise.all([counted, rest > 0n && audit.append(event)])
    return rest > 0n
  }

  /** The log entry. Undefined if the owner has removed the asset from the configuration. */
  #eventOf({ agentId, claim }: NotedPayment, { charged, transaction }: ProvedCharge): AuditEvent | undefined {
    const { assets, nameOf } = this.#deps
    const asset = assets.byAddress(claim.chain, claim.asset)
    if (asset === undefined) return undefined
    const words = (amount: bigint) => `${formatAmount(amount, asset.decimals)} ${asset.symbol}`
    const most = BigInt(claim.most)
    const what = `of a payment of at most ${words(most)}`
    const note =
      charged === 0n
        ? `nothing ${what} was charged, and nothing can be charged any more`
        : transaction === null
          ? `at most ${words(charged)} ${what} was charged`
          : `${words(charged)} ${what} was charged by transaction ${transaction}`
    return {
      agent: nameOf(agentId) ?? 'vault',
      action: 'GIVE_BACK',
      status: 'AUTO_APPROVED',
      amount: formatAmount(most - charged, asset.decimals),
      currency: asset.symbol,
      recipient: claim.payTo,
      chain: claim.chain,
      note,
    }
  }
}

/** A node's own message is left out, because it is untrusted. */
function problemOf(error: unknown): string {
  if (error instanceof RpcRefused) return `The node rejected the request (code ${error.code}).`
  return isRpcError(error) ? `${error.message}.` : 'The check failed.'
}

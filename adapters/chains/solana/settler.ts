import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import type { WireTransaction } from '../../../core/solana/wire.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createFailureBudget } from '../failureBudget.ts'
import { checkSolanaPayment } from './checkSolanaPayment.ts'
import { createConfirmer } from './confirm.ts'
import { cosign } from './cosign.ts'
import { diagnoseSolana } from './diagnose.ts'
import { createMintFacts } from './mintFacts.ts'
import { readOptions, type SolanaSettlerOptions } from './options.ts'
import { parseFeePayerKey } from './parseFeePayerKey.ts'
import { createPayees } from './payees.ts'
import { reasons } from './reasons.ts'
import { createRecovery } from './recovery.ts'
import { createRpc } from './rpc.ts'
import { createSettle } from './settlement.ts'
import { type SimulationRefusal, simulatePayment } from './simulate.ts'
import { solanaRules } from './solanaRules.ts'

/** What is known of a payment between its check and its settlement. */
interface Prepared {
  readonly transaction: WireTransaction
  readonly transferAt: number
  verifiedAtMs: number
}

/**
 * Makes the settler of one Solana network with a fee payer and nodes of its own: x402 scheme `exact`, versions 1 and 2.
 * Creation sends nothing. Several processes may share one fee payer: a transaction's id is made of its message.
 *
 * @example
 * const settler = createSolanaSettler({ network, rpcUrls, privateKey, assets: builtInAssets })
 * await settler.start(unresolved)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key, mint or URL list that could never work
 */
export function createSolanaSettler(given: SolanaSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log } = options
  const key = parseFeePayerKey(given.privateKey)
  const rules = solanaRules({ ...options, feePayers: [key.address], takesSelfPaid: true })
  const genesis = network.slice('solana:'.length)
  const rpc = createRpc({ urls: options.rpcUrls, genesis, timeoutMs: options.rpcTimeoutMs, clock, log })
  const mintFacts = createMintFacts(rpc, assets, clock)
  const payees = createPayees({ rpc, rules, log, againMs: options.payeeAgainMs })
  const budget = createFailureBudget({ ...options.failureBudget, clock })
  const confirmer = createConfirmer({ ...options, rpc })
  const settlerId = `svm:${network}:${key.address}`
  const settle = createSettle({ settlerId, options, rpc, confirmer, budget })
  const { recover, stillOnChain } = createRecovery({ options, rpc, budget })
  const prepared = new WeakMap<PaymentIdentity, Prepared>()
  let isClosed = false

  /** The transaction of an identity that this settler gave out, or of one that stands for the same payment. */
  const prepare = (
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
  ): Prepared | Refusal => {
    const known = prepared.get(identity)
    if (known !== undefined) return known
    const checked = checkSolanaPayment(payment, terms, rules)
    if (!checked.ok) return checked
    if (checked.identity.key !== identity.key) {
      return {
        ok: false,
        reason: reasons.settleFault,
        message: 'The payment is not the one that was checked.',
      }
    }
    const { transaction, transferAt } = checked
    const made = { transaction, transferAt, verifiedAtMs: Number.NEGATIVE_INFINITY }
    prepared.set(identity, made)
    return made
  }

  /** Whose account is missing or frozen, and what to do. */
  const blame = async (
    refused: SimulationRefusal,
    { asset, payTo, payer }: PaymentIdentity,
  ): Promise<Refusal> => {
    const payee = payees.payee(asset, payTo)
    // Without an answer nobody is blamed.
    if (!(await payee.look())) return refused
    if (payee.fault !== undefined) {
      const message = `The seller can not be paid in this token yet; pay another entry of the 402. ${payee.fault}`
      const reason = refused.account === 'missing' ? reasons.receiverAccount : refused.reason
      return { ok: false, reason, message }
    }
    if (refused.account !== 'missing') return refused
    const { symbol } = rules.assets.get(asset)!.asset
    const message = `The buyer's wallet ${payer} has no account of ${symbol} to pay from. Send ${symbol} to it first; that makes the account.`
    return { ok: false, reason: reasons.senderAccount, message }
  }

  return {
    network,
    scheme: 'exact',
    offerExtra: { feePayer: key.address },
    check(payment, terms) {
      const checked = checkSolanaPayment(payment, terms, rules)
      if (!checked.ok) return checked
      const { identity, transaction, transferAt } = checked
      if (budget.isSpent(identity.payer)) {
        const message = 'Too many of this payer’s payments failed on chain lately. Try again later.'
        return { ok: false, reason: reasons.payerBudget, message }
      }
      prepared.set(identity, { transaction, transferAt, verifiedAtMs: Number.NEGATIVE_INFINITY })
      return { ok: true, identity }
    },
    async verify(payment, terms, identity) {
      const found = prepare(payment, terms, identity)
      if ('ok' in found) return found
      try {
        const fault = await mintFacts.faultOf(rules.assets.get(identity.asset)!.asset)
        if (fault !== undefined) {
          log.error({ network, fault }, 'payments in this token are refused')
          return { ok: false, reason: reasons.verifyFault, message: fault, transient: true }
        }
        const verified = await simulatePayment(rpc, found.transaction, found.transferAt)
        if (verified.ok) found.verifiedAtMs = clock.now()
        return 'account' in verified ? await blame(verified, identity) : verified
      } catch (error) {
        log.warn({ error, network }, 'a Solana payment could not be verified')
        const message = 'No Solana node answers now. The payment was not used; try it again.'
        return { ok: false, reason: reasons.verifyFault, message, transient: true }
      }
    },
    async settle(payment, terms, identity, store): Promise<SettleOutcome> {
      const found = prepare(payment, terms, identity)
      if ('ok' in found) return { ...found, status: 'rejected' }
      if (isClosed) {
        const message = 'This server is stopping. Try again.'
        return { status: 'rejected', reason: reasons.settleFault, message, transient: true }
      }
      const ageMs = Math.abs(clock.now() - found.verifiedAtMs)
      return settle(cosign(found.transaction, key), identity, ageMs < options.preflightAfterMs, store)
    },
    recover,
    stillOnChain,
    payee: payees.payee,
    async start() {
      // Transactions of one fee payer do not depend on each other, so there is nothing to take up. Reading the mints now
      // saves the first payment a call; it is not waited for, because the gateway starts without its nodes as well.
      const [asset] = assets
      if (asset === undefined) return
      mintFacts.faultOf(asset).catch((error: unknown) => {
        log.warn({ error, network }, 'no Solana node answers; payments are refused until one does')
      })
    },
    diagnose: () => diagnoseSolana({ options, feePayer: key.address, rpc, mintFacts }),
    async close() {
      isClosed = true
      confirmer.close()
      payees.close()
    },
  }
}

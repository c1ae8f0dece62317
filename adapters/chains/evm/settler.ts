import type { Asset } from '../../../core/domain/asset.ts'
import {
  evmPaymentKey,
  evmPaymentKeyPrefix,
  type PaymentIdentity,
  type PaymentRecord,
} from '../../../core/domain/payment.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import type { Receipt } from '../../../core/evm/transferProof.ts'
import type { Checked, Refusal, Settler } from '../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import type { PaymentPayload } from '../../../core/x402/types.ts'
import { Budgets, type Flight } from '../budgets.ts'
import type { TracedPayment } from '../facilitator/chainReader.ts'
import { admissionRefusals, keyIsShared, notStarted, refuseForNow } from '../refusals.ts'
import { AccountCode } from './check/accountCode.ts'
import { domainSeparator } from './check/authorization.ts'
import { createContractSignatureCheck } from './check/contractSignature.ts'
import { createEvmCheck } from './check/payment.ts'
import { type PaymentCall, PaymentCalls } from './check/paymentCalls.ts'
import { Digests } from './check/signedPayment.ts'
import { transfersIn } from './check/transferCalls.ts'
import { type EvmSettlerOptions, readOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { chainIdOf, createEvmRpc } from './rpc/nodes.ts'
import { Batches } from './settle/batches.ts'
import {
  type Backed,
  createEvmKey,
  type EvmKey,
  EvmKeys,
  type Head,
  minFee,
  paymentsAhead,
} from './settle/keys.ts'
import { ReceiptWatch } from './settle/receipts.ts'
import { costOfFound, Settlement } from './settle/settlement.ts'
import { Transacting } from './settle/transacting.ts'
import { SyncSend } from './settle/transaction.ts'

/**
 * Creates the settler of one EVM network, with its own keys and nodes. It settles the x402 scheme `exact` by EIP-3009, versions 1
 * and 2, and by Permit2, and the scheme `upto` by Permit2. Its creation sends no request. A settler counts the nonces of its keys itself, so only one settler may use a key at a
 * time. All keys of a settler share its budgets and its limit of payments in flight.
 *
 * @example
 * const settler = createEvmSettler({ network: 'eip155:8453', rpcUrls, privateKeys, assets: builtInAssets })
 * await settler.start(openAttempts)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key or URL list that could never work
 */
export function createEvmSettler(given: EvmSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log, maxGas, confirmations, firstPollMs, pollMs } = options
  const rpc = createEvmRpc({
    urls: options.rpcUrls,
    network,
    timeoutMs: options.rpcTimeoutMs,
    sendRequest: options.sendRequest,
    clock,
    log,
  })
  const ws = options.wsUrl === undefined ? undefined : { url: options.wsUrl, chainId: chainIdOf(network) }
  const receipts = new ReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, ws, log })
  const budgets = new Budgets(options)
  const code = new AccountCode(rpc)
  const calls = new PaymentCalls({
    rpc,
    code,
    factories: options.factories,
    digests: new Digests(network, assets),
    maxGas,
    // At most one payment in flight needs no batch, so the payer's code does not matter.
    readsPayersCode: () => budgets.inFlight > 1 && batches.isOn,
  })
  const syncSend = new SyncSend({ rpc, clock, log })
  const prepare = () => Promise.all([budgets.start(), syncSend.probe(), batches.probe()])
  const keys: EvmKeys = new EvmKeys(
    options.privateKeys.map((privateKey) =>
      createEvmKey({ options, privateKey, rpc, receipts, syncSend, prepare }),
    ),
  )
  const [first] = keys.all
  const batches: Batches = new Batches({ options, rpc, keys })
  /** The `extra` of offers by `upto`, by the key that settles their payments. */
  const uptoExtras = new Map(
    keys.all.map((key) => [key, { assetTransferMethod: 'permit2', facilitatorAddress: key.account.address }]),
  )
  /** Payments whose payers had no contract code when the payments were verified. */
  const plain = new WeakSet<Flight>()
  const settlement = new Settlement({
    options,
    rpc,
    keys,
    budgets,
    calls,
    batches,
    isPlain: (flight) => plain.has(flight),
  })
  const transacting = new Transacting({ options, rpc, keys, budgets, receipts })
  /** Receipts of the transactions of payments whose outcome is being checked. */
  const mined = new WeakMap<TracedPayment, Receipt>()
  const { recover, stillOnChain } = createRecovery({
    options,
    rpc,
    heads: first!.heads,
    accounts: keys.all.map(({ account }) => account),
    onReceipt: (record, receipt) => mined.set(record, receipt),
  })
  const check = createEvmCheck({
    network,
    assets,
    clock,
    facilitators: new Set(keys.all.map(({ account }) => account.address.toLowerCase())),
    contractSignature: createContractSignatureCheck({ rpc, code, maxGas, factories: options.factories }),
  })

  /**
   * A refusal includes the payment's identity, because the buyer may be repeating the request for a purchase that was already made.
   */
  const withinBudget = (checked: Checked): Checked =>
    checked.ok && budgets.isSpent(checked.identity.payer)
      ? { ...admissionRefusals.payer_failures, identity: checked.identity }
      : checked

  const judge = async (payments: number, only: string | null): Promise<Backed> => {
    try {
      return await keys.judge(payments, only)
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        'The gateway cannot query the chain now. Try again with the same payment.',
      )
    }
  }

  /**
   * Reserves a slot, and gas for this payment and for every verified payment that is not signed yet. Gas for signed payments is
   * already set aside. Unverified payments are not counted, because a payer can send many payments that never land.
   *
   * A payment that only one key can settle waits for that key. All other payments may be signed by any key, so they count for each.
   */
  const reserve = async (
    flight: Flight,
    { gas, sender }: Pick<PaymentCall, 'gas' | 'sender'>,
  ): Promise<Refusal | undefined> => {
    const affords = await judge(1, sender)
    if (!affords.ok) return affords
    const account = sender ?? ''
    const others = sender === null ? waitingForOneKey() : budgets.waitingFor()
    const why = flight.reserve(BigInt(gas) * affords.gasPriceWei, account, affords.payments - others)
    if (why !== 'means') return why && admissionRefusals[why]
    // The log reports why the account cannot pay.
    const all = await judge(budgets.waitingFor(account) + others + 1, sender)
    return all.ok ? admissionRefusals.means : all
  }

  const waitingForOneKey = (): number =>
    keys.all.reduce((sum, { account }) => sum + budgets.waitingFor(account.address.toLowerCase()), 0)

  /** The refusal when another installation signs with every key that this process may sign with. */
  const refusesAll = (): Refusal | undefined => {
    const started = keys.all.filter((key) => key.isStarted)
    return started.length > 0 && started.every(({ account }) => account.isShared) ? keyIsShared : undefined
  }

  /** Checks whether this process can settle, and then whether the payment is valid on chain. */
  const verifyHeld = async (
    payment: PaymentPayload,
    identity: PaymentIdentity,
    flight: Flight,
  ): Promise<{ readonly ok: true } | Refusal> => {
    // A payment by `upto` is verified as if all of it were charged.
    const prepared = await calls.prepare(payment, identity, identity.amountAtomic)
    if (!prepared.ok) return prepared
    // The fees are checked for this payment only, so that an unverified payment cannot displace others.
    const affords = await judge(1, prepared.sender)
    if (!affords.ok) return affords
    const [verified] = await Promise.all([
      calls.simulate(affords.from, prepared, identity.asset, affords.fees, flight.aheadAtomic),
      keys.checkSharing(),
    ])
    if (!keys.isStarted) return notStarted
    const refusal = refusesAll()
    if (refusal !== undefined) return refusal
    // The slot is reserved only after verification, because a payer can send many payments that never land. These must not displace
    // payments that do.
    const refused = verified.ok ? await reserve(flight, prepared) : undefined
    if (refused !== undefined) return refused
    // A wallet that its first payment deploys has no code yet, but it is not a plain account.
    if (verified.ok && prepared.mayShare && code.remembered(prepared.authorization.from) === false)
      plain.add(flight)
    return verified
  }

  return {
    id: idOf(network, keys.all),
    network,
    schemes: ['exact', 'upto'],
    isExclusive: true,
    sponsorsAllowance: true,
    offerExtra: (_payTo, scheme) => (scheme === 'upto' ? uptoExtras.get(keys.preferred)! : none),
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = check(payment, terms)
      return checked instanceof Promise ? checked.then(withinBudget) : withinBudget(checked)
    },
    async verify(payment, _terms, identity, { storeId }) {
      if (!keys.isStarted) return notStarted
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return admissionRefusals[flight]
      try {
        const verified = await verifyHeld(payment, identity, flight)
        if (verified.ok) return { ok: true, hold: flight }
        // A used authorization is public on chain, and any client can present it. So the payer is not blamed for it.
        const isUsed = verified.reason === reasons.nonceUsed || verified.reason === reasons.permit2Nonce
        if (verified.transient !== true && !isUsed) flight.refused()
        flight.release()
        return verified
      } catch (error) {
        flight.release()
        throw error
      }
    },
    settle: async (payment, terms, identity, store, hold) =>
      keys.isStarted
        ? settlement.settle(payment, terms, identity, store, hold)
        : { ...notStarted, status: 'rejected' },
    transact: (call, storeId) => transacting.send(call, storeId),
    async recover(records) {
      await Promise.all(keys.all.map(({ account }) => account.hasGaps && account.repair()))
      const outcomes = await recover(records)
      const head = first!.heads.lately()
      const likelyWei = head && BigInt(maxGas) * minFee(head, options)
      for (const [i, record] of records.entries()) {
        // If the transaction had no effect, its cost was counted when the payment's outcome was written.
        if (hasCounted(record)) continue
        const outcome = outcomes[i]!
        budgets.found(record, outcome, costOfFound(record, outcome, mined.get(record), likelyWei, options))
      }
      return outcomes
    },
    booked: (record, outcome) => budgets.booked(record, outcome),
    overtaken: (payment, outcome) => budgets.overtaken(payment, outcome),
    forgetConcluded: (concludedOf) => budgets.forgetConcluded(concludedOf),
    stillOnChain,
    paymentsOf: ({ bytes }) =>
      transfersIn(bytes).map(({ contract, from, nonce }) =>
        evmPaymentKey(evmPaymentKeyPrefix(network, contract), from, nonce),
      ),
    keys: keys.all,
    async start(open, mayGoOn) {
      const ofKey = (id: string) => open.filter(({ settler }) => settler === id)
      await Promise.all(keys.all.map((key) => key.start(ofKey(key.id), mayGoOn)))
    },
    refusesAll,
    diagnose: async () => [
      ...(await diagnose(options, rpc, keys.all)),
      ...budgets.diagnose(),
      ...keys.troubles(),
    ],
    async close() {
      receipts.close()
      await Promise.all(keys.all.map(({ account }) => account.close()))
      await budgets.close()
    },
  }
}

const none = {}

const hasCounted = ({ errorReason }: PaymentRecord): boolean =>
  errorReason === reasons.transaction || errorReason === reasons.transferEvent

/** The settler's id is the id of its only key, or one name for all its keys. */
const idOf = (network: string, keys: readonly EvmKey[]): string =>
  `evm:${network}:${keys
    .map(({ account }) => account.address.toLowerCase())
    .sort()
    .join('+')}`

/** The operator is warned if the account can pay for fewer payments than this. */
const LOW_PAYMENTS = 20n

/** Sentences for the operator about what is wrong with a network's settlement. Empty when nothing is wrong. */
async function diagnose(
  options: Required<EvmSettlerOptions>,
  rpc: Rpc,
  keys: readonly EvmKey[],
): Promise<string[]> {
  const { network, assets } = options
  try {
    const heads = await Promise.all(keys.map((key) => key.heads.fresh()))
    const words = [...staleness(heads[0]!, options), ...funding(heads, keys, options)]
    for (const asset of assets) {
      if (asset.network === network) words.push(...(await tokenFaults(rpc, asset)))
    }
    return words
  } catch (error) {
    return [`${network}: ${error instanceof Error ? error.message : 'the nodes cannot be queried'}`]
  }
}

function staleness(head: Head, { network, clock, staleHeadMs }: Required<EvmSettlerOptions>): string[] {
  const ageMs = clock.now() - head.timestamp * 1000
  if (ageMs <= staleHeadMs) return []
  return [
    `${network}: the node's newest block is ${Math.round(ageMs / 1000)} s old, so the node is behind or the clock is wrong.`,
  ]
}

function funding(
  heads: readonly Head[],
  keys: readonly EvmKey[],
  options: Required<EvmSettlerOptions>,
): string[] {
  const { network } = options
  const { baseFee } = heads[0]!
  if (baseFee > options.maxFeePerGasWei) {
    return [`${network}: gas costs ${baseFee} wei now, above maxFeePerGas, so no payment can be settled.`]
  }
  return heads.flatMap((head, i) => {
    const payments = paymentsAhead(head, options)
    if (payments >= LOW_PAYMENTS) return []
    return `${network}: the settling account ${keys[i]!.account.address} can pay the fees of at most ${payments} more payments. Send ether to the account.`
  })
}

async function tokenFaults(rpc: Rpc, asset: Asset): Promise<string[]> {
  const { network, address, decimals, eip712, transferMethod } = asset
  const name = `${network}: token ${asset.symbol} at ${address}`
  if (eip712 === undefined)
    return transferMethod === 'permit2' ? [] : [`${name} has no eip712 name and version configured.`]
  const [separator, digits] = await rpc.batch([
    reading(token.domainSeparator(address)),
    reading(token.decimals(address)),
  ])
  const found = separator?.ok ? wordOf(separator.result) : undefined
  if (found === undefined) return [`${name} is not a contract with an EIP-712 domain.`]
  const expected = domainSeparator({ ...eip712, chainId: chainIdOf(network), verifyingContract: address })
  const faults: string[] = []
  if (found !== BigInt(`0x${Buffer.from(expected).toString('hex')}`)) {
    faults.push(
      `${name} signs with another EIP-712 domain than name "${eip712.name}", version "${eip712.version}".`,
    )
  }
  const actual = digits?.ok ? wordOf(digits.result) : undefined
  if (actual !== BigInt(decimals))
    faults.push(`${name} has ${actual ?? 'no'} decimals, expected ${decimals}.`)
  return faults
}

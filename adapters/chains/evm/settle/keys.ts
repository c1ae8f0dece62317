import type { EvmCall } from '../../../../core/evm/token.ts'
import type { OwnKey, Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import { quantity, type RpcResponse, RpcUnreachable } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { admissionRefusals, keyIsShared, notStarted } from '../../refusals.ts'
import type { EvmSettlerOptions } from '../options.ts'
import { SettlingAccount, type Store } from './account.ts'
import { Landing, type ReceiptWatch, type Sent } from './receipts.ts'
import type { Fees, SyncSend } from './transaction.ts'

/** A key is stuck when a transaction has waited this long, in ms, and longer than a multiple of the typical time. */
const MIN_STUCK_MS = 10_000
const STUCK_USUAL_TIMES = 5

/** One settling key (the key that signs transactions and pays their fees), with its account and its transactions. */
export interface EvmKey extends Required<OwnKey> {
  readonly account: SettlingAccount
  /** The chain's newest block, with this account's balance. */
  readonly heads: HeadCache
  readonly means: Means
  readonly landing: Landing
  /** Whether this process may sign with the key and has adopted the attempts that other processes signed. */
  readonly isStarted: boolean
  /** Whether a transaction of the key waits for its block much longer than usual, so that later ones would wait as well. */
  readonly isStuck: boolean
  /** Number of payments for which this key was chosen and that are not signed yet. */
  chosen: number
}

export interface EvmKeyDeps {
  readonly options: Required<EvmSettlerOptions>
  readonly privateKey: string
  readonly rpc: Rpc
  readonly receipts: ReceiptWatch
  readonly syncSend: SyncSend
  /** Prepares what all keys share, before the first key signs. */
  readonly prepare: () => Promise<unknown>
}

export function createEvmKey({ options, privateKey, rpc, receipts, syncSend, prepare }: EvmKeyDeps): EvmKey {
  const { clock, maxGas } = options
  const account: SettlingAccount = new SettlingAccount({
    ...options,
    privateKey,
    rpc,
    async currentFees() {
      const head = await heads.fresh()
      return feesFor(head, options, head.balance - account.committedWei, maxGas)
    },
  })
  const heads: HeadCache = new HeadCache(rpc, account.address, clock, options.headMaxAgeMs)
  let isStarted = () => !options.needsStart

  // If another process has taken the key's lease, that process sends the transactions that wait here.
  const isStuck = () =>
    isStarted() && account.oldestMs > Math.max(MIN_STUCK_MS, STUCK_USUAL_TIMES * (receipts.usualMs ?? 0))

  return {
    id: account.id,
    account,
    heads,
    means: new Means(options, account),
    landing: new Landing({ options, rpc, account, receipts, syncSend }),
    chosen: 0,
    get isStarted() {
      return isStarted()
    },
    get isStuck() {
      return isStuck()
    },
    async start(open, mayGoOn = () => true, ledgerNonces) {
      // If this process gets the lease again, it must first adopt what other processes have signed meanwhile.
      isStarted = () => false
      account.recheck()
      await Promise.all([account.adopt(open, mayGoOn, ledgerNonces), prepare()])
      await account.checkSharing()
      isStarted = mayGoOn
    },
    followUp: (openAttempts) => account.followUp(openAttempts),
    async readState() {
      const [head, nonce] = await Promise.all([heads.fresh(), account.nonces()])
      return {
        address: account.address,
        balance: head.balance,
        nonce,
        paymentsLeft: paymentsAhead(head, options),
        inFlight: account.inFlight,
        ...(isStuck() && { trouble: { kind: 'stuck', words: stuckText(account) } }),
        ...(account.isShared && { trouble: { kind: 'shared', words: sharedText(account.address) } }),
      }
    },
  }
}

/**
 * The fees of the next transaction, the address that would sign it, and the number of payments that all keys together can pay for.
 */
export type Backed =
  | (Extract<Affordable, { readonly ok: true }> & { readonly from: string; readonly payments: number })
  | Refusal

/** A transaction in flight, or one that was not sent because an attempt was not stored. */
export interface Sending {
  readonly ok: true
  /** Undefined if the transaction was not sent. */
  readonly sent: Sent | undefined
  readonly isStored: readonly boolean[]
}

/**
 * The keys of one settler. Each transaction is signed by the usable key with the fewest payments in flight. A stuck key is used
 * last. A key that cannot sign or pay is skipped. Signed bytes stay with their key, and no other key signs for the same payment
 * while they can land.
 */
export class EvmKeys {
  readonly all: readonly EvmKey[]
  #turn = 0

  constructor(all: readonly EvmKey[]) {
    this.all = all
  }

  /** Whether this process may sign with any key. */
  get isStarted(): boolean {
    return this.all.some((key) => key.isStarted)
  }

  /**
   * Whether the keys together can pay for this many further settlements. Rejects if no node responds.
   *
   * @param only the address of the only key that may sign, in lower case. Null for any key
   * @returns the fees for the next signature
   */
  async judge(waiting: number, only: string | null = null): Promise<Backed> {
    const started = this.#inOrder(only)
    const heads = await Promise.all(
      started.map(async ({ heads }) => heads.lately() ?? (await heads.current())),
    )
    const backing = started.map(({ means }, i) => means.backs(heads[i]!))
    let best = 0
    for (const [i, payments] of backing.entries()) if (payments > backing[best]!) best = i
    const key = started[best]
    if (key === undefined) return notStarted
    const ofOthers = backing.reduce((sum, payments, i) => (i === best ? sum : sum + payments), 0n)
    const left = BigInt(waiting) - ofOthers
    const judged = key.means.judge(heads[best]!, left < 1n ? 1 : Number(left))
    if (!judged.ok) return judged
    return { ...judged, from: key.account.address, payments: Number(ofOthers + backing[best]!) }
  }

  /** Checks whether another program signs with one of the keys. Never rejects. */
  checkSharing(): Promise<unknown> {
    return Promise.all(this.all.map((key) => key.isStarted && key.account.checkSharing()))
  }

  /**
   * Chooses a key, signs, stores and sends; see {@link SettlingAccount.sign}. Rejects if no node returns the newest block.
   *
   * @param gas gas limit of the transaction
   * @param only the address of the only key that may sign, in lower case. Null for any key
   */
  async send(
    call: EvmCall,
    gas: number,
    stores: readonly Store[],
    only: string | null = null,
  ): Promise<Sending | Refusal> {
    let refusal: Refusal = notStarted
    const payments = stores.length
    for (const key of this.#inOrder(only)) {
      const { account, heads, means, landing } = key
      key.chosen += payments
      try {
        await account.checkSharing()
        const affords = means.judge(await heads.current(), 1, gas)
        if (!affords.ok) {
          refusal = affords
          continue
        }
        if (!key.isStarted) continue
        const { attempt, isStored } = await account.sign(call, gas, affords.fees, stores)
        const sent = attempt && { attempt, payments, receipt: landing.land(attempt) }
        return { ok: true, sent, isStored }
      } finally {
        key.chosen -= payments
      }
    }
    return refusal
  }

  /** Sentences for the operator about why keys cannot settle. */
  troubles(): string[] {
    const { isStarted } = this
    return this.all.flatMap((key) => {
      const { account, isStuck } = key
      return [
        ...(account.isShared ? [sharedText(account.address)] : []),
        ...(isStuck ? [stuckText(account)] : []),
        ...(isStarted && !key.isStarted ? [notTakenText(account.address)] : []),
      ]
    })
  }

  /**
   * The key that the next offer by `upto` should name, because only the named key can settle its payments. It is the first key of
   * the configuration that this process does not skip.
   */
  get preferred(): EvmKey {
    const isGood = (key: EvmKey) => key.isStarted && !key.isStuck && !key.account.isShared
    return this.all.find(isGood) ?? this.all[0]!
  }

  /** Keys that may sign, best first. Equally good keys take turns. @param only see {@link send} */
  #inOrder(only: string | null): EvmKey[] {
    const { all } = this
    if (only !== null) return all.filter((key) => key.isStarted && key.account.address.toLowerCase() === only)
    if (all.length === 1) return all[0]!.isStarted ? [...all] : []
    this.#turn = (this.#turn + 1) % all.length
    return [...all.slice(this.#turn), ...all.slice(0, this.#turn)]
      .filter((key) => key.isStarted)
      .map((key) => ({ key, isStuck: key.isStuck, load: key.chosen + key.account.paymentsInFlight }))
      .sort((a, b) => Number(a.isStuck) - Number(b.isStuck) || a.load - b.load)
      .map(({ key }) => key)
  }
}

const sharedText = (address: string): string =>
  `Another program signs with the settling key ${address}, such as another installation. The gateway does not settle with this key until the other program stops. Give each installation a key of its own.`

const stuckText = ({ address, oldestMs }: SettlingAccount): string =>
  `A transaction of the settling key ${address} has waited for its block for ${Math.round(oldestMs / 1_000)} s, so the gateway uses other keys first if it has any.`

const notTakenText = (address: string): string =>
  `The settling key ${address} is skipped, because another process has the key, or no node has responded since the key became available.`

/** The newest block, with the balance of the settling account. */
export interface Head {
  readonly number: number
  /** Seconds since 1970 by the chain's clock. */
  readonly timestamp: number
  /** The newest block's base fee, in wei per unit of gas. */
  readonly baseFee: bigint
  /** Gas limit of a block. */
  readonly blockGas: bigint
  /** Balance of the settling account, in wei. */
  readonly balance: bigint
}

/** A head of up to this many times `maxAgeMs` is still used while the next one is read. */
const LATE_TIMES = 3

/** The newest block, read at most once per `maxAgeMs` for all callers. */
export class HeadCache {
  readonly #rpc: Rpc
  readonly #account: string
  readonly #clock: Clock
  readonly #maxAgeMs: number
  #head: Head | undefined
  #readAtMs = 0
  #reading: Promise<Head> | undefined

  constructor(rpc: Rpc, account: string, clock: Clock, maxAgeMs: number) {
    this.#rpc = rpc
    this.#account = account
    this.#clock = clock
    this.#maxAgeMs = maxAgeMs
  }

  /** @throws {RpcUnreachable} {RpcRefused} when the head is too old and no node responds. */
  current(): Promise<Head> {
    return this.#head !== undefined && this.#isYounger(this.#maxAgeMs)
      ? Promise.resolve(this.#head)
      : this.fresh()
  }

  /**
   * The known head if it is at most slightly too old. A read of the next one then starts in the background. Undefined if the caller
   * has to wait.
   */
  lately(): Head | undefined {
    if (this.#head === undefined || !this.#isYounger(LATE_TIMES * this.#maxAgeMs)) return undefined
    if (!this.#isYounger(this.#maxAgeMs)) void this.fresh().catch(() => {})
    return this.#head
  }

  /** Reads the head now. */
  fresh(): Promise<Head> {
    this.#reading ??= readHead(this.#rpc, this.#account)
      .then((head) => {
        this.#readAtMs = this.#clock.now()
        return (this.#head = head)
      })
      .finally(() => {
        this.#reading = undefined
      })
    return this.#reading
  }

  #isYounger(ms: number): boolean {
    return Math.abs(this.#clock.now() - this.#readAtMs) < ms
  }
}

async function readHead(rpc: Rpc, account: string): Promise<Head> {
  const [block, balance] = await rpc.batch([
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
    { method: 'eth_getBalance', params: [account, 'latest'] },
  ])
  const { number, timestamp, baseFeePerGas, gasLimit } = resultOf(block) as Record<string, unknown>
  return {
    number: Number(quantity(number)),
    timestamp: Number(quantity(timestamp)),
    // The field is absent on chains without EIP-1559 fees, which are not supported.
    baseFee: quantity(baseFeePerGas),
    blockGas: quantity(gasLimit),
    balance: quantity(resultOf(balance)),
  }
}

/** @throws {RpcRefused} when the node refuses. @throws {RpcUnreachable} when there is no result. */
function resultOf(response: RpcResponse | undefined): unknown {
  if (response?.ok && response.result !== null) return response.result
  if (response?.ok === false) throw response.error
  throw new RpcUnreachable('the node left out a response')
}

export interface FeeCaps {
  /** Highest price of a unit of gas, in wei. */
  readonly maxFeePerGasWei: bigint
  /** Tip for the block's builder, in wei per unit of gas. */
  readonly maxPriorityFeePerGasWei: bigint
}

/**
 * A node accepts no transaction whose highest cost exceeds the account's balance. Each transaction may reserve this fraction (1/16)
 * of the balance that no other transaction has reserved.
 */
const shares = 16n

/**
 * Fees of a transaction that has to be mined even if the base fee rises. The transaction offers up to the operator's cap but pays
 * only the base fee and the tip (EIP-1559). It offers that much because no other transaction may replace it. With too low a fee it
 * would block its nonce and every later one until the base fee falls. An account that cannot afford the cap signs what it can
 * afford, but never less than twice the base fee.
 *
 * @param spareWei balance beyond the highest cost of the account's transactions in flight
 * @returns undefined when even the next block costs more than the cap
 */
export function feesFor(head: Head, caps: FeeCaps, spareWei: bigint, gas: number): Fees | undefined {
  const cap = caps.maxFeePerGasWei
  const tip = smaller(caps.maxPriorityFeePerGasWei, cap)
  if (head.baseFee + tip > cap) return undefined
  const least = minFee(head, caps)
  const share = spareWei / (shares * BigInt(gas))
  return { maxFeePerGas: smaller(cap, share > least ? share : least), maxPriorityFeePerGas: tip }
}

/** Twice the base fee plus the tip, up to the cap. The base fee doubles in six full blocks at the earliest (12.5 % per block). */
export const minFee = (head: Head, caps: FeeCaps): bigint =>
  smaller(caps.maxFeePerGasWei, head.baseFee * 2n + caps.maxPriorityFeePerGasWei)

/** How many settlements the account can pay for, each at the lowest fee that would be signed now. */
export const paymentsAhead = (head: Head, options: FeeCaps & { readonly maxGas: number }): bigint =>
  head.balance / (BigInt(options.maxGas) * minFee(head, options))

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** Transactions of one account that nodes keep in their pools. */
const MAX_TRANSACTIONS = 256
/** How often the log reports why settlement is stopped, in ms. The gateway refuses every payment meanwhile. */
const LOG_AGAIN_MS = 10_000

/** The fees for one more settlement, or why the settling key cannot pay for it. */
export type Affordable =
  | {
      readonly ok: true
      readonly fees: Fees
      /** Highest price of a unit of gas as long as the base fee at most doubles, in wei. */
      readonly gasPriceWei: bigint
    }
  | Refusal

/** Checks what one key's account can pay for, before the seller works and again before anything is signed. */
export class Means {
  readonly #options: Required<EvmSettlerOptions>
  readonly #account: Pick<SettlingAccount, 'address' | 'committedWei' | 'inFlight' | 'isShared'>
  #loggedAtMs = Number.NEGATIVE_INFINITY

  constructor(
    options: Required<EvmSettlerOptions>,
    account: Pick<SettlingAccount, 'address' | 'committedWei' | 'inFlight' | 'isShared'>,
  ) {
    this.#options = options
    this.#account = account
  }

  /**
   * Whether the account can pay for this many further transactions.
   *
   * @param gas gas limit of each transaction; by default that of a single settlement
   */
  judge(head: Head, waiting: number, gas = this.#options.maxGas): Affordable {
    const { address, committedWei, inFlight, isShared } = this.#account
    if (isShared) return keyIsShared
    if (inFlight >= MAX_TRANSACTIONS) return admissionRefusals.in_flight
    const spareWei = head.balance - committedWei
    const fees = feesFor(head, this.#options, spareWei, gas)
    if (fees === undefined)
      return this.#stopped(`the gas price of the network, ${head.baseFee} wei, is above the cap`)
    const gasPriceWei = minFee(head, this.#options)
    const needed = BigInt(gas) * gasPriceWei * BigInt(waiting)
    if (spareWei >= needed) return { ok: true, fees, gasPriceWei }
    const ahead = waiting === 1 ? 'the next payment needs' : `the next ${waiting} payments need`
    return this.#stopped(
      `the settling account ${address} has ${head.balance} wei, its transactions in flight reserve ${committedWei} wei, and ${ahead} ${needed} wei`,
    )
  }

  /** Number of further settlements that the account can pay for now; 0 if the key cannot sign. */
  backs(head: Head): bigint {
    const { committedWei, inFlight, isShared } = this.#account
    const { maxGas } = this.#options
    if (isShared || inFlight >= MAX_TRANSACTIONS) return 0n
    const spareWei = head.balance - committedWei
    if (spareWei <= 0n || feesFor(head, this.#options, spareWei, maxGas) === undefined) return 0n
    return spareWei / (BigInt(maxGas) * minFee(head, this.#options))
  }

  #stopped(why: string): Refusal {
    if (performance.now() - this.#loggedAtMs > LOG_AGAIN_MS) {
      this.#loggedAtMs = performance.now()
      this.#options.log.error({ network: this.#options.network }, `settlement stopped: ${why}`)
    }
    return admissionRefusals.means
  }
}

import { randomBytes } from 'node:crypto'
import { base58 } from '@scure/base'
import { AddressLookupTableAccount, PublicKey } from '@solana/web3.js'
import type { FailedTransactionMetadata, LiteSVM, TransactionMetadata } from 'litesvm'
import { SYSTEM_PROGRAM } from './addresses.ts'
import { type RawAccount, readAccount, type SvmAddress, writeAccount } from './svmAccount.ts'
import { readTokenAccount } from './tokenAccount.ts'
import { type TransactionError, toTransactionError } from './transactionError.ts'
import { feeOf, isFullySigned, type WireTransaction } from './wireTransaction.ts'

/** Number of recent blockhashes with which a transaction may land (Agave's MAX_PROCESSING_AGE). */
export const REAL_BLOCKHASH_LIFETIME = 150
/** Number of slots for which a node returns a status without searching its history. */
const STATUS_CACHE_SLOTS = 300
/**
 * Maximum transactions that are kept for queries. The oldest is dropped first, so that the memory of a long demo does not grow
 * without limit.
 */
const HISTORY_LIMIT = 50_000

/** How certain it is that a slot stays on the chain. */
export type Commitment = 'processed' | 'confirmed' | 'finalized'

/** Balance of a token account, before or after a transaction. */
export type TokenBalance = {
  accountIndex: number
  mint: string
  owner: string
  programId: string
  amount: bigint
}

/** The effects of an execution. */
export type Execution = {
  error: TransactionError | null
  logs: string[]
  unitsConsumed: bigint
  innerInstructions: ReturnType<TransactionMetadata['innerInstructions']>
  returnData: { programId: string; data: Uint8Array } | null
}

/** A transaction in a block. */
export type Landed = Execution & {
  transaction: WireTransaction
  slot: number
  blockTime: number
  fee: bigint
  /** Static keys, then the writable and the read-only keys of lookup tables. */
  keys: string[]
  loaded: { writable: string[]; readonly: string[] }
  preBalances: bigint[]
  postBalances: bigint[]
  preTokenBalances: TokenBalance[]
  postTokenBalances: TokenBalance[]
}

/** A blockhash, and the last block height at which it is valid. */
export type BlockhashInfo = { blockhash: string; lastValidBlockHeight: number }

/** The state of the chain, which consists of slots, blockhashes, processed transactions, and the accounts in `svm`. */
export type Ledger = {
  readonly svm: LiteSVM
  readonly slot: number
  readonly blockHeight: number
  readonly transactionCount: number
  /** The newest slot with at least this commitment. */
  slotAt(commitment: Commitment): number
  blockTime(slot: number): number | undefined
  latestBlockhash(commitment: Commitment): BlockhashInfo
  /**
   * Whether the newest block of this commitment would accept a transaction with the blockhash. Finalized blocks see a blockhash
   * later, and forget it later.
   */
  isBlockhashValid(blockhash: string, commitment: Commitment): boolean
  /** Why a transaction cannot be processed now. Executes nothing. Null if it can be processed. */
  precheck(transaction: WireTransaction): TransactionError | null
  simulate(transaction: WireTransaction): Execution & { account(address: string): RawAccount | undefined }
  /** Executes and records a transaction. Undefined if no leader would have included it in a block. */
  land(transaction: WireTransaction): Landed | undefined
  find(signature: string): Landed | undefined
  /** Whether a node would find the transaction without searching its history. */
  isRecent(landed: Landed): boolean
  commitmentOf(slot: number): Commitment
  /** The transactions, newest first. */
  history(): Iterable<Landed>
  advanceSlots(slots: number): void
  /**
   * Removes the transactions of the last slots and their effects, as when a fork is abandoned. The slots and their blockhashes
   * stay, so the same transactions can land again. Returns the number of removed transactions.
   */
  rollBack(slots: number): number
}

/** Options of a ledger. */
export type LedgerOptions = {
  svm: LiteSVM
  /** Sets the clock that programs read. It is an option, because litesvm is loaded only if it is installed. */
  setClock(slot: number, unixSeconds: number): void
  firstSlot: number
  confirmedAfterSlots: number
  finalizedAfterSlots: number
  /** Number of slots for which a blockhash is valid. */
  blockhashLifetimeSlots: number
}

/**
 * Creates a ledger over an SVM whose own checks of signatures, blockhashes and duplicates are off. The ledger makes these checks,
 * because the SVM has only one blockhash at a time, while a real chain accepts the last 150.
 */
export function createLedger(options: LedgerOptions): Ledger {
  const { svm, confirmedAfterSlots, finalizedAfterSlots, blockhashLifetimeSlots } = options
  const heightOffset = options.firstSlot - blockhashLifetimeSlots - 1_000
  let slot = options.firstSlot - blockhashLifetimeSlots - 1
  let transactionCount = 0
  const blocks = new Map<number, { blockhash: string; time: number }>()
  const slotOfBlockhash = new Map<string, number>()
  const landedBySignature = new Map<string, Landed>()
  const slotOfMessage = new Map<string, number>()
  const accountsBefore = new WeakMap<Landed, (readonly [string, RawAccount | undefined])[]>()

  const height = (ofSlot: number) => ofSlot - heightOffset
  const advance = () => {
    slot += 1
    const time = Math.floor(Date.now() / 1000)
    const blockhash = base58.encode(randomBytes(32))
    blocks.set(slot, { blockhash, time })
    slotOfBlockhash.set(blockhash, slot)
    const expired = blocks.get(slot - blockhashLifetimeSlots - finalizedAfterSlots - 1)
    if (expired !== undefined) slotOfBlockhash.delete(expired.blockhash)
    blocks.delete(slot - HISTORY_LIMIT)
    options.setClock(slot, time)
  }
  const advanceSlots = (slots: number) => {
    for (let i = 0; i < slots; i++) advance()
    // A message may be forgotten once its blockhash has expired.
    for (const [hash, at] of slotOfMessage) {
      if (at + 2 * blockhashLifetimeSlots >= slot) break
      slotOfMessage.delete(hash)
    }
  }
  // The chain starts after enough slots that `finalized` has a blockhash at the first request.
  advanceSlots(blockhashLifetimeSlots + 1)

  const slotAt = (commitment: Commitment) => {
    if (commitment === 'processed') return slot
    return slot - (commitment === 'confirmed' ? confirmedAfterSlots : finalizedAfterSlots)
  }
  const commitmentOf = (ofSlot: number): Commitment => {
    if (ofSlot <= slotAt('finalized')) return 'finalized'
    return ofSlot <= slotAt('confirmed') ? 'confirmed' : 'processed'
  }
  const isTakenAt = (ofSlot: number, blockhash: string): boolean => {
    const madeAt = slotOfBlockhash.get(blockhash)
    return madeAt !== undefined && madeAt <= ofSlot && ofSlot - madeAt <= blockhashLifetimeSlots
  }
  const precheck = (transaction: WireTransaction): TransactionError | null => {
    if (!isTakenAt(slot, transaction.recentBlockhash)) return 'BlockhashNotFound'
    if (slotOfMessage.has(transaction.messageHash)) return 'AlreadyProcessed'
    return null
  }

  return {
    svm,
    get slot() {
      return slot
    },
    get blockHeight() {
      return height(slot)
    },
    get transactionCount() {
      return transactionCount
    },
    slotAt,
    blockTime: (ofSlot) => blocks.get(ofSlot)?.time,
    latestBlockhash(commitment) {
      const at = slotAt(commitment)
      return {
        blockhash: blocks.get(at)!.blockhash,
        lastValidBlockHeight: height(at) + blockhashLifetimeSlots,
      }
    },
    isBlockhashValid: (blockhash, commitment) => isTakenAt(slotAt(commitment), blockhash),
    precheck,
    simulate(transaction) {
      const outcome = svm.simulateTransaction(toSvmTransaction(transaction))
      if ('err' in outcome) {
        return { ...toExecution(outcome), account: (address) => readAccount(svm, address) }
      }
      const changed = new Map(outcome.postAccounts().map((account) => [String(account.address), account]))
      return {
        ...toExecution(outcome),
        account(address) {
          const after = changed.get(address)
          if (after === undefined) return readAccount(svm, address)
          const { lamports, executable, data } = after
          return {
            lamports: BigInt(lamports),
            owner: after.programAddress,
            data: Uint8Array.from(data),
            executable,
          }
        },
      }
    },
    land(transaction) {
      if (!isFullySigned(transaction) || precheck(transaction) !== null) return undefined
      const { keys, loaded } = resolveKeys(svm, transaction)
      const preBalances = keys.map((key) => balanceOf(svm, key))
      const preTokenBalances = tokenBalances(svm, keys)
      // Programs are left out, because they do not change, and storing them with every transaction would use too much memory.
      const before = keys
        .map((key) => [key, readAccount(svm, key)] as const)
        .filter(([, account]) => !account?.executable)
      const outcome = svm.sendTransaction(toSvmTransaction(transaction))
      const execution = toExecution(outcome)
      // An error without an instruction (no money for the fee, no such account) means that no block contains the transaction.
      if (typeof execution.error === 'string') return undefined
      const landed: Landed = {
        ...execution,
        transaction,
        slot,
        blockTime: blocks.get(slot)!.time,
        fee: feeOf(transaction.message),
        keys,
        loaded,
        preBalances,
        postBalances: keys.map((key) => balanceOf(svm, key)),
        preTokenBalances,
        postTokenBalances: tokenBalances(svm, keys),
      }
      transactionCount += 1
      landedBySignature.set(transaction.signature, landed)
      accountsBefore.set(landed, before)
      slotOfMessage.set(transaction.messageHash, slot)
      if (landedBySignature.size > HISTORY_LIMIT)
        landedBySignature.delete(landedBySignature.keys().next().value!)
      return landed
    },
    find: (signature) => landedBySignature.get(signature),
    isRecent: (landed) => slot - landed.slot <= STATUS_CACHE_SLOTS,
    commitmentOf,
    history: () => [...landedBySignature.values()].reverse(),
    advanceSlots,
    rollBack(slots) {
      const undone = [...landedBySignature.values()].filter((landed) => landed.slot > slot - slots)
      // Newest first, so that each restored transaction finds the accounts in the state in which it left them.
      for (const landed of undone.reverse()) {
        for (const [key, account] of accountsBefore.get(landed) ?? []) restoreAccount(svm, key, account)
        landedBySignature.delete(landed.transaction.signature)
        slotOfMessage.delete(landed.transaction.messageHash)
      }
      return undone.length
    },
  }
}

function balanceOf(svm: LiteSVM, address: string): bigint {
  return svm.getBalance(address as SvmAddress) ?? 0n
}

/** Restores an account. If it did not exist before, it becomes an empty shell, which reads as absent. */
function restoreAccount(svm: LiteSVM, address: string, account: RawAccount | undefined): void {
  const absent = { lamports: 0n, owner: SYSTEM_PROGRAM, data: new Uint8Array(), executable: false }
  writeAccount(svm, address, account ?? absent)
}

function tokenBalances(svm: LiteSVM, keys: string[]): TokenBalance[] {
  return keys.flatMap((key, accountIndex) => {
    const account = readAccount(svm, key)
    const token = account === undefined ? undefined : readTokenAccount(account.data)
    if (account === undefined || token === undefined) return []
    return [
      { accountIndex, mint: token.mint, owner: token.owner, programId: account.owner, amount: token.amount },
    ]
  })
}

function toExecution(
  outcome: FailedTransactionMetadata | { meta(): TransactionMetadata } | TransactionMetadata,
) {
  const meta = 'meta' in outcome ? outcome.meta() : outcome
  const returned = meta.returnData()
  const data = Uint8Array.from(returned.data())
  const execution: Execution = {
    error: 'err' in outcome ? toTransactionError(outcome) : null,
    logs: meta.logs(),
    unitsConsumed: meta.computeUnitsConsumed(),
    innerInstructions: meta.innerInstructions(),
    returnData: data.length === 0 ? null : { programId: base58.encode(returned.programId()), data },
  }
  return execution
}

/**
 * Converts a transaction to litesvm's type, which is that of @solana/kit, with the message's bytes and the signatures in signer
 * order.
 */
function toSvmTransaction({ messageBytes, signatures, staticKeys }: WireTransaction) {
  const named = Object.fromEntries(signatures.map((signature, index) => [staticKeys[index], signature]))
  return { messageBytes, signatures: named } as unknown as Parameters<LiteSVM['sendTransaction']>[0]
}

function resolveKeys(svm: LiteSVM, { message, staticKeys }: WireTransaction) {
  const loaded = { writable: [] as string[], readonly: [] as string[] }
  for (const lookup of message.addressTableLookups) {
    const table = readAccount(svm, lookup.accountKey.toBase58())
    if (table === undefined) continue
    const { addresses } = AddressLookupTableAccount.deserialize(table.data)
    const pick = (indexes: number[]) =>
      indexes.map((index) => (addresses[index] ?? PublicKey.default).toBase58())
    loaded.writable.push(...pick(lookup.writableIndexes))
    loaded.readonly.push(...pick(lookup.readonlyIndexes))
  }
  return { keys: [...staticKeys, ...loaded.writable, ...loaded.readonly], loaded }
}

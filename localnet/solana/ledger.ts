import { randomBytes } from 'node:crypto'
import { base58 } from '@scure/base'
import { AddressLookupTableAccount, PublicKey } from '@solana/web3.js'
import type { FailedTransactionMetadata, LiteSVM, TransactionMetadata } from 'litesvm'
import { SYSTEM_PROGRAM } from './addresses.ts'
import { feeOf } from './fee.ts'
import { type RawAccount, readAccount, type SvmAddress, writeAccount } from './svmAccount.ts'
import { readTokenAccount } from './tokenAccount.ts'
import { type TransactionError, toTransactionError } from './transactionError.ts'
import { isFullySigned, type WireTransaction } from './wireTransaction.ts'

/** A transaction may land while its block hash is among the last 150 (Agave's MAX_PROCESSING_AGE). */
export const REAL_BLOCKHASH_LIFETIME = 150
/** Slots for which a node answers a status without searching its history. */
const STATUS_CACHE_SLOTS = 300
/** Transactions kept for queries; the oldest goes first, so that a long demo does not grow without end. */
const HISTORY_LIMIT = 50_000

/** How sure a slot is. */
export type Commitment = 'processed' | 'confirmed' | 'finalized'

/** Balance of a token account, before or after a transaction. */
export type TokenBalance = {
  accountIndex: number
  mint: string
  owner: string
  programId: string
  amount: bigint
}

/** What an execution did. */
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
  /** Static keys, then the writable and the read-only ones of lookup tables. */
  keys: string[]
  loaded: { writable: string[]; readonly: string[] }
  preBalances: bigint[]
  postBalances: bigint[]
  preTokenBalances: TokenBalance[]
  postTokenBalances: TokenBalance[]
}

/** A block hash and the last block height at which it is good. */
export type BlockhashInfo = { blockhash: string; lastValidBlockHeight: number }

/** The chain's memory: slots, block hashes, what was processed, and the accounts in `svm`. */
export type Ledger = {
  readonly svm: LiteSVM
  readonly slot: number
  readonly blockHeight: number
  readonly transactionCount: number
  /** The newest slot that has at least this commitment. */
  slotAt(commitment: Commitment): number
  blockTime(slot: number): number | undefined
  latestBlockhash(commitment: Commitment): BlockhashInfo
  /** Whether the newest block of this commitment would take it: finalized ones learn of it later, and forget it later. */
  isBlockhashValid(blockhash: string, commitment: Commitment): boolean
  /** Why a transaction cannot be processed now, before anything is executed. */
  precheck(transaction: WireTransaction): TransactionError | null
  simulate(transaction: WireTransaction): Execution & { account(address: string): RawAccount | undefined }
  /** Executes and records a transaction; `undefined` when no leader would have taken it into a block. */
  land(transaction: WireTransaction): Landed | undefined
  find(signature: string): Landed | undefined
  /** Whether a node would still find it without searching its history. */
  isRecent(landed: Landed): boolean
  commitmentOf(slot: number): Commitment
  /** Newest first. */
  history(): Iterable<Landed>
  advanceSlots(slots: number): void
  /**
   * Takes the transactions of the last slots out of the chain, with what they did, as when a fork is given up.
   * The slots and their block hashes stay, so the same transactions can land again. Returns how many went.
   */
  rollBack(slots: number): number
}

/** How a ledger is made. */
export type LedgerOptions = {
  svm: LiteSVM
  /** Makes the clock that programs read; given from outside, because litesvm is loaded only when it is there. */
  setClock(slot: number, unixSeconds: number): void
  firstSlot: number
  confirmedAfterSlots: number
  finalizedAfterSlots: number
  /** Slots for which a block hash lets a transaction in. */
  blockhashLifetimeSlots: number
}

/**
 * Makes a ledger over an SVM whose own checks of signatures, block hashes and duplicates are off: the SVM knows one
 * block hash at a time, and a real chain accepts the last 150, so these three checks are made here.
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
    // A message can be forgotten only when its block hash can no longer let it in.
    for (const [hash, at] of slotOfMessage) {
      if (at + 2 * blockhashLifetimeSlots >= slot) break
      slotOfMessage.delete(hash)
    }
  }
  // A chain that is old enough for `finalized` to have a block hash from the first request on.
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
      // Programs do not change, and they are large: kept with every transaction they would fill the memory.
      const before = keys
        .map((key) => [key, readAccount(svm, key)] as const)
        .filter(([, account]) => !account?.executable)
      const outcome = svm.sendTransaction(toSvmTransaction(transaction))
      const execution = toExecution(outcome)
      // An error without an instruction (no money for the fee, no such account) means that no block has it.
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
      // Newest first, so that each finds the accounts as it left them.
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

/** Puts an account back; one that was not there before becomes an empty shell, which reads as absent. */
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

/** litesvm takes the transaction type of @solana/kit: the message's bytes, and the signatures in signer order. */
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

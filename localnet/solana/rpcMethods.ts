import { base58 } from '@scure/base'
import { VersionedMessage } from '@solana/web3.js'
import { DEVNET_GENESIS_HASH } from './addresses.ts'
import { type AccountConfig, encodeAccount, encodeTokenAmount } from './encodeAccount.ts'
import { encodeInnerInstructions, encodeLanded, type TransactionConfig } from './encodeTransaction.ts'
import type { Commitment, Execution, Landed, Ledger } from './ledger.ts'
import {
  INVALID_PARAMS,
  MIN_CONTEXT_SLOT_NOT_REACHED,
  PREFLIGHT_FAILURE,
  RpcError,
  SIGNATURE_VERIFICATION_FAILURE,
} from './rpcError.ts'
import { readAccount, type SvmAddress } from './svmAccount.ts'
import { readMint, readTokenAccount } from './tokenAccount.ts'
import { describeTransactionError, type TransactionError } from './transactionError.ts'
import {
  feeOf,
  isFullySigned,
  MAX_TRANSACTION_BYTES,
  readTransaction,
  type WireTransaction,
} from './wireTransaction.ts'

const SLOTS_PER_EPOCH = 432_000
const MAX_SIGNATURES_ASKED = 256
const MAX_ACCOUNTS_ASKED = 100
const SYSTEM_VERSION = '3.0.0'

type Config = AccountConfig &
  TransactionConfig & {
    commitment?: Commitment
    minContextSlot?: number
    sigVerify?: boolean
    replaceRecentBlockhash?: boolean
    innerInstructions?: boolean
    accounts?: { addresses: string[]; encoding?: string }
    skipPreflight?: boolean
    preflightCommitment?: Commitment
    searchTransactionHistory?: boolean
    limit?: number
    before?: string
    until?: string
  }

// Unchecked parameters of a request: every method validates its own.
// biome-ignore lint/suspicious/noExplicitAny: JSON of unknown shape.
type Params = any[]

/** JSON-RPC methods by name. A method throws an `RpcError` to return an error. */
export type RpcMethods = Record<string, (...params: Params) => unknown>

/** Called with each accepted transaction. The local chain may delay or lose the transaction. */
export type Submit = (transaction: WireTransaction) => void

/** The HTTP methods of Solana's JSON-RPC that payments need, over one ledger. */
export function createRpcMethods(
  ledger: Ledger,
  submit: Submit,
  airdrop: (address: string, lamports: bigint) => string,
): RpcMethods {
  const { svm } = ledger
  const decimalsOf = (mint: string) =>
    readMint(readAccount(svm, mint)?.data ?? new Uint8Array())?.decimals ?? 0
  const withContext = <T>(value: T, config?: Config) => {
    // A node responds with the state of the newest block with that commitment, and names that block's slot.
    const slot = ledger.slotAt(config?.commitment ?? 'finalized')
    if (config?.minContextSlot !== undefined && config.minContextSlot > slot) {
      throw new RpcError(MIN_CONTEXT_SLOT_NOT_REACHED, 'Minimum context slot has not been reached', {
        contextSlot: slot,
      })
    }
    return { context: { apiVersion: SYSTEM_VERSION, slot }, value }
  }
  const accountInfo = (address: string, config: AccountConfig) => {
    const account = readAccount(svm, checkedAddress(address))
    return account === undefined ? null : encodeAccount(account, config, decimalsOf)
  }
  const tokenAccountOf = (address: string) => {
    const account = readAccount(svm, checkedAddress(address))
    const token = account === undefined ? undefined : readTokenAccount(account.data)
    if (token === undefined) throw new RpcError(INVALID_PARAMS, 'Invalid param: could not find account')
    return token
  }
  const programAccounts = (program: string) =>
    svm.getProgramAccounts(program as SvmAddress).map((account) => ({
      pubkey: String(account.address),
      account: {
        lamports: BigInt(account.lamports),
        owner: program,
        data: Uint8Array.from(account.data),
        executable: account.executable,
      },
    }))
  const hasReached = (landed: Landed, commitment: Commitment) => landed.slot <= ledger.slotAt(commitment)
  const run = (transaction: WireTransaction, checksBlockhash: boolean) => {
    const refused = checksBlockhash ? ledger.precheck(transaction) : null
    return refused === null
      ? ledger.simulate(transaction)
      : { ...NOTHING_RAN, error: refused, account: () => undefined }
  }

  return {
    getHealth: () => 'ok',
    getVersion: () => ({ 'solana-core': SYSTEM_VERSION, 'feature-set': 0 }),
    getGenesisHash: () => DEVNET_GENESIS_HASH,
    getIdentity: () => ({ identity: DEVNET_GENESIS_HASH }),
    getSlot: (config?: Config) => ledger.slotAt(config?.commitment ?? 'finalized'),
    getBlockHeight: (config?: Config) =>
      ledger.blockHeight - (ledger.slot - ledger.slotAt(config?.commitment ?? 'finalized')),
    getBlockTime: (slot: number) => ledger.blockTime(slot) ?? null,
    getTransactionCount: () => ledger.transactionCount,
    getEpochInfo: (config?: Config) => {
      const absoluteSlot = ledger.slotAt(config?.commitment ?? 'finalized')
      return {
        absoluteSlot,
        blockHeight: ledger.blockHeight - (ledger.slot - absoluteSlot),
        epoch: Math.floor(absoluteSlot / SLOTS_PER_EPOCH),
        slotIndex: absoluteSlot % SLOTS_PER_EPOCH,
        slotsInEpoch: SLOTS_PER_EPOCH,
        transactionCount: ledger.transactionCount,
      }
    },

    getLatestBlockhash: (config?: Config) =>
      withContext(ledger.latestBlockhash(config?.commitment ?? 'finalized'), config),
    isBlockhashValid: (blockhash: string, config?: Config) =>
      withContext(ledger.isBlockhashValid(blockhash, config?.commitment ?? 'finalized'), config),
    getFeeForMessage: (message: string, config?: Config) => {
      const read = VersionedMessage.deserialize(Buffer.from(message, 'base64'))
      return withContext(
        ledger.isBlockhashValid(read.recentBlockhash, 'processed') ? Number(feeOf(read)) : null,
        config,
      )
    },
    getRecentPrioritizationFees: () =>
      Array.from({ length: 150 }, (_, i) => ({ slot: ledger.slot - 149 + i, prioritizationFee: 0 })),
    getMinimumBalanceForRentExemption: (bytes: number) =>
      Number(svm.minimumBalanceForRentExemption(BigInt(bytes))),

    getBalance: (address: string, config?: Config) =>
      withContext(Number(readAccount(svm, checkedAddress(address))?.lamports ?? 0n), config),
    getAccountInfo: (address: string, config: Config = {}) =>
      withContext(accountInfo(address, config), config),
    getMultipleAccounts: (addresses: string[], config: Config = {}) => {
      if (addresses.length > MAX_ACCOUNTS_ASKED) {
        throw new RpcError(INVALID_PARAMS, `Too many inputs provided; max ${MAX_ACCOUNTS_ASKED}`)
      }
      // Here base64 is the default, unlike in getAccountInfo.
      const encoding = config.encoding ?? 'base64'
      return withContext(
        addresses.map((address) => accountInfo(address, { ...config, encoding })),
        config,
      )
    },
    getTokenAccountBalance: (address: string, config?: Config) => {
      const { amount, mint } = tokenAccountOf(address)
      return withContext(encodeTokenAmount(amount, decimalsOf(mint)), config)
    },
    getTokenSupply: (mint: string, config?: Config) => {
      const read = readMint(readAccount(svm, checkedAddress(mint))?.data ?? new Uint8Array())
      if (read === undefined) throw new RpcError(INVALID_PARAMS, 'Invalid param: could not find mint')
      return withContext(encodeTokenAmount(read.supply, read.decimals), config)
    },
    getTokenAccountsByOwner: (
      owner: string,
      filter: { mint?: string; programId?: string },
      config: Config = {},
    ) => {
      const program = filter.programId ?? readAccount(svm, checkedAddress(filter.mint ?? ''))?.owner
      if (program === undefined) throw new RpcError(INVALID_PARAMS, 'Invalid param: could not find mint')
      const found = programAccounts(program).filter(({ account }) => {
        const token = readTokenAccount(account.data)
        return token?.owner === owner && (filter.mint === undefined || token.mint === filter.mint)
      })
      return withContext(
        found.map(({ pubkey, account }) => ({ pubkey, account: encodeAccount(account, config, decimalsOf) })),
        config,
      )
    },

    simulateTransaction: (encoded: string, config: Config = {}) => {
      const transaction = decode(encoded, config.encoding)
      if (config.sigVerify && config.replaceRecentBlockhash) {
        throw new RpcError(INVALID_PARAMS, 'sigVerify may not be used with replaceRecentBlockhash')
      }
      if (config.sigVerify) assertSigned(transaction)
      const result = run(transaction, !config.replaceRecentBlockhash)
      return withContext(
        {
          ...encodeExecution(result, config.innerInstructions === true),
          accounts:
            config.accounts === undefined
              ? null
              : config.accounts.addresses.map((address) => {
                  const account = result.error === null ? result.account(address) : undefined
                  const encoding = config.accounts?.encoding ?? 'base64'
                  return account === undefined ? null : encodeAccount(account, { encoding }, decimalsOf)
                }),
          ...(config.replaceRecentBlockhash
            ? { replacementBlockhash: ledger.latestBlockhash(config.commitment ?? 'finalized') }
            : {}),
        },
        config,
      )
    },
    sendTransaction: (encoded: string, config: Config = {}) => {
      const transaction = decode(encoded, config.encoding)
      if (!config.skipPreflight) {
        assertSigned(transaction)
        const result = run(transaction, true)
        if (result.error !== null) {
          throw new RpcError(
            PREFLIGHT_FAILURE,
            `Transaction simulation failed: ${describeTransactionError(result.error)}`,
            { accounts: null, ...encodeExecution(result, false) },
          )
        }
      }
      submit(transaction)
      return transaction.signature
    },
    requestAirdrop: (address: string, lamports: number) => airdrop(checkedAddress(address), BigInt(lamports)),

    getSignatureStatuses: (signatures: string[], config?: Config) => {
      if (signatures.length > MAX_SIGNATURES_ASKED) {
        throw new RpcError(INVALID_PARAMS, `Too many inputs provided; max ${MAX_SIGNATURES_ASKED}`)
      }
      return withContext(
        signatures.map((signature) => {
          const landed = ledger.find(signature)
          if (landed === undefined) return null
          if (!ledger.isRecent(landed) && !config?.searchTransactionHistory) return null
          return encodeStatus(landed, ledger)
        }),
        { commitment: 'processed' },
      )
    },
    getTransaction: (signature: string, config: Config | string = {}) => {
      const asked = typeof config === 'string' ? { encoding: config } : config
      const landed = ledger.find(signature)
      if (landed === undefined || !hasReached(landed, historyCommitment(asked))) return null
      return encodeLanded(landed, asked, decimalsOf)
    },
    getSignaturesForAddress: (address: string, config: Config = {}) => {
      const found: unknown[] = []
      let isPastBefore = config.before === undefined
      for (const landed of ledger.history()) {
        const { signature } = landed.transaction
        if (signature === config.until || found.length >= (config.limit ?? 1_000)) break
        if (isPastBefore && landed.keys.includes(address) && hasReached(landed, historyCommitment(config))) {
          const { slot, blockTime, error: err } = landed
          const confirmationStatus = ledger.commitmentOf(slot)
          found.push({ signature, slot, err, memo: null, blockTime, confirmationStatus })
        }
        isPastBefore ||= signature === config.before
      }
      return found
    },
  }
}

const NOTHING_RAN: Execution = {
  error: null,
  logs: [],
  unitsConsumed: 0n,
  innerInstructions: [],
  returnData: null,
}

/** The status of a signature, in the form of `getSignatureStatuses`. */
function encodeStatus(landed: Landed, ledger: Ledger) {
  const confirmationStatus = ledger.commitmentOf(landed.slot)
  const err: TransactionError | null = landed.error
  return {
    slot: landed.slot,
    confirmations: confirmationStatus === 'finalized' ? null : ledger.slot - landed.slot,
    err,
    status: err === null ? { Ok: null } : { Err: err },
    confirmationStatus,
  }
}

function encodeExecution(result: Execution, withInnerInstructions: boolean) {
  const { returnData } = result
  return {
    err: result.error,
    logs: result.logs,
    unitsConsumed: Number(result.unitsConsumed),
    returnData:
      returnData === null
        ? null
        : {
            programId: returnData.programId,
            data: [Buffer.from(returnData.data).toString('base64'), 'base64'],
          },
    innerInstructions: withInnerInstructions ? encodeInnerInstructions(result.innerInstructions) : null,
  }
}

/** The commitment of a query of the history, which allows only `confirmed` and `finalized`. */
function historyCommitment(config: Config): Commitment {
  const { commitment = 'finalized' } = config
  if (commitment !== 'processed') return commitment
  throw new RpcError(INVALID_PARAMS, 'Method does not support commitment below `confirmed`')
}

function decode(encoded: string, encoding = 'base58'): WireTransaction {
  let bytes: Uint8Array
  try {
    bytes = encoding === 'base64' ? Buffer.from(encoded, 'base64') : base58.decode(encoded)
  } catch {
    throw new RpcError(INVALID_PARAMS, `invalid ${encoding} encoding`)
  }
  if (bytes.length > MAX_TRANSACTION_BYTES) {
    throw new RpcError(
      INVALID_PARAMS,
      `decoded versioned transaction too large: ${bytes.length} bytes (max: ${MAX_TRANSACTION_BYTES} bytes)`,
    )
  }
  try {
    return readTransaction(bytes)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new RpcError(INVALID_PARAMS, `failed to deserialize versioned transaction: ${reason}`)
  }
}

function assertSigned(transaction: WireTransaction): void {
  if (isFullySigned(transaction)) return
  throw new RpcError(SIGNATURE_VERIFICATION_FAILURE, 'Transaction signature verification failure')
}

function checkedAddress(address: string): string {
  let length = 0
  try {
    length = base58.decode(address).length
  } catch {
    // The check below reports this text together with texts of a wrong length.
  }
  if (length !== 32) throw new RpcError(INVALID_PARAMS, 'Invalid param: Invalid')
  return address
}

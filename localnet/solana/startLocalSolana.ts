import { Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js'
import type { LiteSVM } from 'litesvm'
import { LocalChainError } from '../jsonRpcClient.ts'
import {
  DEVNET_GENESIS_HASH,
  DEVNET_NETWORK,
  DEVNET_USDC_MINT,
  LIGHTHOUSE_PROGRAM,
  LOCAL_TOKEN_2022_MINT,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from './addresses.ts'
import { createLedger, type Ledger, REAL_BLOCKHASH_LIFETIME } from './ledger.ts'
import { createLocalTokens, lighthouseStandIn } from './localTokens.ts'
import { createRpcMethods } from './rpcMethods.ts'
import { startRpcServer } from './rpcServer.ts'
import { createSubscriptions } from './subscriptions.ts'
import { readAccount, type SvmAddress, writeAccount } from './svmAccount.ts'
import { readTransaction, type WireTransaction } from './wireTransaction.ts'

/** Options of a local Solana chain. */
export type LocalSolanaOptions = {
  /** HTTP port on 127.0.0.1. WebSocket is on the next port. If absent, any two consecutive free ports. */
  port?: number
  /** Time between slots, in ms, 100 if absent. With 0, only `advanceSlots` advances the chain. */
  slotMs?: number
  /** Slots until a transaction is confirmed. 1 if absent. */
  confirmedAfterSlots?: number
  /** Slots until a transaction is finalized. 32 if absent, as on the real chain. */
  finalizedAfterSlots?: number
  /** Number of slots for which a blockhash is valid. 150 if absent, as on the real chain, where they take 60 s. */
  blockhashLifetimeSlots?: number
}

/** A running chain. Amounts of tokens are in their smallest unit (6 decimals), amounts of SOL in lamports. */
export type LocalSolana = {
  rpcUrl: string
  wsUrl: string
  genesisHash: string
  /** CAIP-2 name, which is devnet's. */
  network: string
  /** The mint of USDC (Token program). */
  usdcMint: string
  /** The mint of another test dollar (Token-2022 program). */
  token2022Mint: string
  /** The slot in which a transaction would land now. */
  slot(): number
  /** Adds SOL to an account and returns the signature of the transfer. */
  airdrop(address: string, lamports: bigint): string
  /**
   * Creates an owner's associated token account, without a balance. An existing account stays unchanged. Returns the account's
   * address.
   */
  createAta(owner: string, mint?: string): string
  /** Address of an owner's associated token account. The account need not exist. */
  ataAddress(owner: string, mint?: string): string
  /**
   * Adds USDC to an owner's associated account, which is created if needed. It writes the state directly, without a transaction.
   */
  mintUsdc(owner: string, amountAtomic: bigint): void
  /** Like `mintUsdc`, for any mint of this chain. */
  mintToken(mint: string, owner: string, amountAtomic: bigint): void
  /** USDC in an owner's associated account. 0 if there is none. */
  balanceUsdc(owner: string): bigint
  /** Like `balanceUsdc`, for any mint of this chain. */
  balanceToken(mint: string, owner: string): bigint
  balanceSol(address: string): bigint
  /** Advances the chain, so that transactions get confirmed and finalized, and blockhashes expire. */
  advanceSlots(slots: number): void
  /** From now on, transactions are accepted but held until `release`. */
  hold(): void
  /** Lands the held transactions in order, and stops holding. Returns how many landed. Expired transactions are lost. */
  release(): number
  /** The next transactions are accepted but never land. */
  dropNext(count?: number): void
  /**
   * Removes the transactions of the last slots, as when a fork is abandoned. Money returns, and the same transactions may land
   * again. Tokens that were minted after such a transaction to one of its accounts are lost too. Returns the number of removed
   * transactions.
   */
  rollBack(slots: number): number
  /** Ends the servers and the clock, and resolves when the ports are free. */
  close(): Promise<void>
}

/**
 * Starts a local Solana chain that unmodified x402 clients accept as devnet. It is litesvm's virtual machine with the real token
 * programs, behind a JSON-RPC server of this project.
 *
 * @example const chain = await startLocalSolana({ slotMs: 0 })
 * chain.mintUsdc(buyer, 5_000_000n) // 5 USDC
 * await chain.close()
 *
 * @throws {LocalChainError} if litesvm is not installed or the ports are taken
 */
export async function startLocalSolana(options: LocalSolanaOptions = {}): Promise<LocalSolana> {
  const { port = 0, slotMs = 100, confirmedAfterSlots = 1, finalizedAfterSlots = 32 } = options
  const { blockhashLifetimeSlots = REAL_BLOCKHASH_LIFETIME } = options
  const { LiteSVM, Clock } = await loadLiteSvm()
  const svm = new LiteSVM().withSigverify(false).withBlockhashCheck(false).withTransactionHistory(0n)
  svm.addProgram(LIGHTHOUSE_PROGRAM as SvmAddress, lighthouseStandIn)
  const ledger = createLedger({
    svm,
    firstSlot: Number(svm.getClock().slot),
    confirmedAfterSlots,
    finalizedAfterSlots,
    blockhashLifetimeSlots,
    setClock(slot, unixSeconds) {
      svm.setClock(new Clock(BigInt(slot), 0n, 0n, 0n, BigInt(unixSeconds)))
    },
  })
  const tokens = createLocalTokens(svm)
  tokens.createMint(DEVNET_USDC_MINT, TOKEN_PROGRAM)
  tokens.createMint(LOCAL_TOKEN_2022_MINT, TOKEN_2022_PROGRAM)

  const subscriptions = createSubscriptions(ledger)
  const gate = createGate((transaction) => {
    const landed = ledger.land(transaction)
    if (landed !== undefined) subscriptions.onChange()
    return landed !== undefined
  })
  const faucet = createFaucet(svm, ledger)
  const airdrop = (address: string, lamports: bigint) => {
    const signature = faucet(address, lamports)
    subscriptions.onChange()
    return signature
  }
  const advanceSlots = (slots: number) => {
    // The chain advances slot by slot, because subscribers are notified of every slot.
    for (let i = 0; i < slots; i++) {
      ledger.advanceSlots(1)
      subscriptions.onChange()
    }
  }
  const server = await startRpcServer(
    port,
    createRpcMethods(ledger, gate.submit, airdrop),
    subscriptions.methods,
  )
  const timer = slotMs > 0 ? setInterval(advanceSlots, slotMs, 1) : undefined

  return {
    rpcUrl: server.rpcUrl,
    wsUrl: server.wsUrl,
    genesisHash: DEVNET_GENESIS_HASH,
    network: DEVNET_NETWORK,
    usdcMint: DEVNET_USDC_MINT,
    token2022Mint: LOCAL_TOKEN_2022_MINT,
    slot: () => ledger.slot,
    airdrop,
    createAta: (owner, mint = DEVNET_USDC_MINT) => tokens.createAta(owner, mint),
    ataAddress: (owner, mint = DEVNET_USDC_MINT) => tokens.ataAddress(owner, mint),
    mintUsdc: (owner, amountAtomic) => tokens.mintTo(DEVNET_USDC_MINT, owner, amountAtomic),
    mintToken: tokens.mintTo,
    balanceUsdc: (owner) => tokens.balance(DEVNET_USDC_MINT, owner),
    balanceToken: tokens.balance,
    balanceSol: (address) => readAccount(svm, address)?.lamports ?? 0n,
    advanceSlots,
    hold: gate.hold,
    release: gate.release,
    dropNext: gate.dropNext,
    rollBack: ledger.rollBack,
    async close() {
      clearInterval(timer)
      await server.close()
    },
  }
}

async function loadLiteSvm() {
  try {
    return await import('litesvm')
  } catch (cause) {
    throw new LocalChainError(
      'local_chain_not_installed',
      'The local Solana chain needs the npm package litesvm with its binary for this platform, and it is not ' +
        'installed. In a clone, run `npm install`.',
      { cause },
    )
  }
}

const FAUCET_LAMPORTS = 10n ** 18n

/** Creates `airdrop`. It makes real transfers from an account with unlimited SOL, so that they appear in the history. */
function createFaucet(svm: LiteSVM, ledger: Ledger): (address: string, lamports: bigint) => string {
  const faucet = Keypair.generate()
  const own = faucet.publicKey.toBase58() as SvmAddress
  let count = 0
  return (address, lamports) => {
    const account = {
      lamports: FAUCET_LAMPORTS,
      data: new Uint8Array(),
      owner: SYSTEM_PROGRAM,
      executable: false,
    }
    writeAccount(svm, own, account)
    const { blockhash } = ledger.latestBlockhash('processed')
    const transfer = new Transaction({
      feePayer: faucet.publicKey,
      recentBlockhash: blockhash,
      signatures: [],
    })
    transfer.add(
      SystemProgram.transfer({ fromPubkey: faucet.publicKey, toPubkey: new PublicKey(address), lamports }),
      // The memo makes the message unique, because two equal airdrops in one slot would be duplicates.
      new TransactionInstruction({
        programId: new PublicKey(MEMO_PROGRAM),
        keys: [],
        data: Buffer.from(`airdrop ${++count}`),
      }),
    )
    transfer.sign(faucet)
    const transaction = readTransaction(transfer.serialize())
    const landed = ledger.land(transaction)
    if (landed === undefined || landed.error !== null) {
      throw new Error(
        `The airdrop of ${lamports} lamports to ${address} failed: ${JSON.stringify(landed?.error)}`,
      )
    }
    return transaction.signature
  }
}

/**
 * Holds or drops transactions between their acceptance by the node and their block, because real chains delay and lose transactions
 * there.
 */
type Gate = {
  submit(transaction: WireTransaction): void
  hold(): void
  /** Lands the held transactions in order. Returns how many landed. */
  release(): number
  dropNext(count?: number): void
}

/** @param land includes a transaction in a block. It returns false if no block can include the transaction any more */
function createGate(land: (transaction: WireTransaction) => boolean): Gate {
  let isHolding = false
  let toDrop = 0
  const held: WireTransaction[] = []
  return {
    submit(transaction) {
      if (toDrop > 0) toDrop -= 1
      else if (isHolding) held.push(transaction)
      else land(transaction)
    },
    hold() {
      isHolding = true
    },
    release() {
      isHolding = false
      return held.splice(0).filter(land).length
    },
    dropNext(count = 1) {
      toDrop += count
    },
  }
}

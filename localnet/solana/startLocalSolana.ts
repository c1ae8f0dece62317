import { LocalChainError } from '../localChainError.ts'
import {
  DEVNET_GENESIS_HASH,
  DEVNET_NETWORK,
  DEVNET_USDC_MINT,
  LIGHTHOUSE_PROGRAM,
  LOCAL_TOKEN_2022_MINT,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from './addresses.ts'
import { createFaucet } from './faucet.ts'
import { createGate } from './gate.ts'
import { createLedger, REAL_BLOCKHASH_LIFETIME } from './ledger.ts'
import { lighthouseStandIn } from './lighthouseStandIn.ts'
import { createLocalTokens } from './localTokens.ts'
import { createRpcMethods } from './rpcMethods.ts'
import { startRpcServer } from './rpcServer.ts'
import { createSubscriptions } from './subscriptions.ts'
import { readAccount, type SvmAddress } from './svmAccount.ts'

/** How a local Solana chain is started. */
export type LocalSolanaOptions = {
  /** HTTP port on 127.0.0.1; WebSocket is on the next one. Default: any two free ports in a row. */
  port?: number
  /** Milliseconds between slots; 0 for none, then only `advanceSlots` moves the chain. Default 100. */
  slotMs?: number
  /** Slots until a transaction is confirmed. Default 1. */
  confirmedAfterSlots?: number
  /** Slots until a transaction is finalized. Default 32, as on the real chain. */
  finalizedAfterSlots?: number
  /** Slots for which a block hash is good. Default 150, as on the real chain, which takes 60 seconds for them. */
  blockhashLifetimeSlots?: number
}

/** A running chain. Amounts of tokens are in their smallest unit (6 decimals), amounts of SOL in lamports. */
export type LocalSolana = {
  rpcUrl: string
  wsUrl: string
  genesisHash: string
  /** CAIP-2 name: devnet's. */
  network: string
  /** USDC's mint (Token program). */
  usdcMint: string
  /** Another dollar of ours, of the Token-2022 program. */
  token2022Mint: string
  /** Slot that transactions land in now. */
  slot(): number
  /** Adds SOL to an account and returns the signature of the transfer. */
  airdrop(address: string, lamports: bigint): string
  /** Makes an owner's associated token account, empty; one that exists stays as it is. Returns its address. */
  createAta(owner: string, mint?: string): string
  /** Where an owner's associated token account is, or would be. */
  ataAddress(owner: string, mint?: string): string
  /** Adds USDC to an owner's associated account, made when absent. A write to state: there is no transaction. */
  mintUsdc(owner: string, amountAtomic: bigint): void
  /** The same for any mint of this chain. */
  mintToken(mint: string, owner: string, amountAtomic: bigint): void
  /** USDC in an owner's associated account; 0 without one. */
  balanceUsdc(owner: string): bigint
  /** The same for any mint of this chain. */
  balanceToken(mint: string, owner: string): bigint
  balanceSol(address: string): bigint
  /** Moves the chain on; transactions get confirmed and finalized, block hashes expire. */
  advanceSlots(slots: number): void
  /** From now on transactions are accepted and kept back, until `release`. */
  hold(): void
  /** Lands what was kept back, in order, and holds no more; returns how many landed. Expired ones are lost. */
  release(): number
  /** The next transactions are accepted and never land. */
  dropNext(count?: number): void
  /**
   * Takes the transactions of the last slots out of the chain, as when a fork is given up; money goes back, and the
   * same transactions may land again. What was minted to an account after it was touched is lost too.
   * Returns how many went.
   */
  rollBack(slots: number): number
  /** Ends the servers and the clock; resolves when the ports are free. */
  close(): Promise<void>
}

/**
 * Starts a Solana chain on this machine that unmodified x402 clients take for devnet: litesvm's virtual machine with
 * the real token programs, behind a JSON-RPC server of our own.
 *
 * @example
 * const chain = await startLocalSolana({ slotMs: 0 })
 * chain.mintUsdc(buyer, 5_000_000n) // 5 USDC
 * await chain.close()
 *
 * @throws {LocalChainError} when litesvm is not installed or the ports are taken.
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
    // One by one, because a subscriber hears of every slot.
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
        'installed. Run `npm install --include=optional litesvm@1.5.0`.',
      { cause },
    )
  }
}

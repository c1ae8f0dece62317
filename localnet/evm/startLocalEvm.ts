import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Address,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  numberToHex,
  parseAbi,
} from 'viem'
import { createJsonRpcClient, type JsonRpcClient } from '../jsonRpcClient.ts'
import multicall3 from './artefacts/Multicall3.json' with { type: 'json' }
import silentUsdc from './artefacts/SilentUSDC.json' with { type: 'json' }
import smartWalletFactory from './artefacts/SmartWalletFactory.json' with { type: 'json' }
import testUsdc from './artefacts/TestUSDC.json' with { type: 'json' }
import { spawnAnvil } from './spawnAnvil.ts'

/** Base Sepolia; the chain says that it is this one, so that unmodified clients know its USDC. */
export const LOCAL_EVM_CHAIN_ID = 84532
/** USDC on Base Sepolia. @see https://developers.circle.com/stablecoins/usdc-contract-addresses */
export const LOCAL_USDC_ADDRESS: Address = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
/** Multicall3, the same on every chain. @see https://www.multicall3.com */
export const MULTICALL3_ADDRESS: Address = '0xcA11bde05977b3631167028862bE2a173976CA11'
/** Our factory of one-owner wallets; an address of no meaning elsewhere. */
export const SMART_WALLET_FACTORY_ADDRESS: Address = '0x5a17000000000000000000000000000000000001'
/** The words behind anvil's ten funded accounts; known to everyone, worth nothing anywhere else. */
export const LOCAL_EVM_MNEMONIC = 'test test test test test test test test test test test junk'

const factoryAbi = parseAbi([
  'function createAccount(address owner, uint256 salt) returns (address)',
  'function getAddress(address owner, uint256 salt) view returns (address)',
])

/** How a local EVM chain is started. */
export type LocalEvmOptions = {
  /** TCP port on 127.0.0.1. Default: a free one. */
  port?: number
  /** Milliseconds between blocks. Default: every transaction is mined at once, in a block of its own. */
  blockTimeMs?: number
  /** With `blockTimeMs`: every transaction is mined at once as well. An idle chain's clock then goes on. */
  minesAtOnce?: boolean
  /** Gas that the transactions of one block may use. Default 30,000,000. */
  blockGas?: number
}

/** A running chain. Amounts of USDC are in its smallest unit (6 decimals), amounts of ether in wei. */
export type LocalEvm = {
  rpcUrl: string
  chainId: number
  /** CAIP-2 name: `eip155:84532`. */
  network: string
  usdcAddress: Address
  multicall3Address: Address
  smartWalletFactory: Address
  mnemonic: string
  /** Any JSON-RPC call, `anvil_…` and `evm_…` included. */
  rpc: JsonRpcClient
  /**
   * Sends a transaction from one of anvil's accounts or an impersonated one: the node needs no key. The node answers
   * before the transaction is in a block; this waits for that, unless automine is off. @returns its hash
   */
  send(transaction: { from: string; to: string; data?: string; gas?: Hex }): Promise<Hex>
  /** Adds ether to a balance. */
  fundEth(address: Address, wei: bigint): Promise<void>
  balanceEth(address: Address): Promise<bigint>
  /** Adds USDC to a balance. It is a write to storage, sealed in a block: no transaction, no Transfer event. */
  mintUsdc(address: Address, amountAtomic: bigint): Promise<void>
  balanceUsdc(address: Address): Promise<bigint>
  /** While true, the token refuses transfers from and to the account. */
  setBlacklisted(address: Address, isBlacklisted: boolean): Promise<void>
  /** While true, the token refuses everything that writes. */
  setUsdcPaused(isPaused: boolean): Promise<void>
  /** Which token answers at the USDC address; `silent` does not revert on a used authorisation. Balances stay. */
  useToken(token: 'usdc' | 'silent'): Promise<void>
  /** Where the wallet of this owner and salt is, or will be. */
  smartWalletAddress(owner: Address, salt?: bigint): Promise<Address>
  /** Calldata that makes the wallet; what ERC-6492 wraps beside the factory's address. */
  smartWalletCalldata(owner: Address, salt?: bigint): Hex
  /** Makes the wallet (once; again is harmless) and returns its address. With automine off, call `mine()` too. */
  deploySmartWallet(owner: Address, salt?: bigint): Promise<Address>
  /** Mines blocks now, pending transactions first. */
  mine(blocks?: number): Promise<void>
  /** With false, transactions wait in the pool until `mine()`. */
  setAutomine(isOn: boolean): Promise<void>
  /** Replaces the last blocks by as many empty ones; their transactions are gone, from the pool too. */
  reorg(depth: number): Promise<void>
  /** Takes a transaction out of the pool. */
  dropTransaction(hash: Hex): Promise<void>
  /** Base fee of the next block, in wei per gas. */
  setNextBlockBaseFee(weiPerGas: bigint): Promise<void>
  /** Moves the chain's clock ahead and mines a block there. */
  advanceTime(seconds: number): Promise<void>
  blockNumber(): Promise<bigint>
  /** Ends the node; resolves when the process is gone. */
  close(): Promise<void>
}

/**
 * Starts an EVM chain on this machine that unmodified x402 clients take for Base Sepolia: anvil, with a test USDC
 * and Multicall3 at their real addresses and a factory of ERC-1271 wallets.
 *
 * @example
 * const chain = await startLocalEvm()
 * await chain.mintUsdc(buyer, 5_000_000n) // 5 USDC
 * await chain.close()
 *
 * @throws {LocalChainError} when anvil is not installed or does not start.
 */
export async function startLocalEvm(options: LocalEvmOptions = {}): Promise<LocalEvm> {
  const anvil = await spawnAnvil({ port: 0, ...options, chainId: LOCAL_EVM_CHAIN_ID })
  const rpc = createJsonRpcClient(anvil.rpcUrl)
  try {
    await rpc('anvil_setCode', LOCAL_USDC_ADDRESS, testUsdc.deployedBytecode)
    await rpc('anvil_setCode', MULTICALL3_ADDRESS, multicall3.deployedBytecode)
    await rpc('anvil_setCode', SMART_WALLET_FACTORY_ADDRESS, smartWalletFactory.deployedBytecode)
    // A reorganisation goes back to the state kept with a block; without this one it would lose the contracts.
    await rpc('evm_mine')
  } catch (error) {
    await anvil.stop()
    throw error
  }

  const readUsdc = (slot: Hex) => rpc<Hex>('eth_getStorageAt', LOCAL_USDC_ADDRESS, slot, 'latest')
  const writeUsdc = (slot: Hex, value: bigint) =>
    rpc('anvil_setStorageAt', LOCAL_USDC_ADDRESS, slot, numberToHex(value, { size: 32 }))
  const addToSlot = async (slot: Hex, amount: bigint) =>
    writeUsdc(slot, BigInt(await readUsdc(slot)) + amount)
  // Reading a balance and writing the sum are two calls: two at a time would lose one of the sums.
  let lastAddition: Promise<unknown> = Promise.resolve()
  const inTurn = (addition: () => Promise<void>): Promise<void> => {
    const turn = lastAddition.then(addition)
    lastAddition = turn.catch(() => undefined)
    return turn
  }
  let isAutomining = true
  const send = async (transaction: object): Promise<Hex> => {
    const hash = await rpc<Hex>('eth_sendTransaction', transaction)
    while (isAutomining && (await rpc('eth_getTransactionReceipt', hash)) === null) await sleep(5)
    return hash
  }
  const callFactory = (data: Hex) =>
    rpc<Hex>('eth_call', { to: SMART_WALLET_FACTORY_ADDRESS, data }, 'latest')
  const smartWalletCalldata = (owner: Address, salt = 0n) =>
    encodeFunctionData({ abi: factoryAbi, functionName: 'createAccount', args: [owner, salt] })
  const smartWalletAddress = async (owner: Address, salt = 0n) => {
    const word = await callFactory(
      encodeFunctionData({ abi: factoryAbi, functionName: 'getAddress', args: [owner, salt] }),
    )
    return getAddress(`0x${word.slice(26)}`)
  }
  /** Puts what was written into a block of its own, so that a later `reorg` keeps it. */
  const seal = async () => {
    const pool = await rpc<{ pending: Hex; queued: Hex }>('txpool_status')
    // Waiting transactions stay waiting: the test that holds them back says when they are mined.
    if (BigInt(pool.pending) === 0n) await rpc('evm_mine')
  }
  const balanceEth = async (address: Address) => BigInt(await rpc<Hex>('eth_getBalance', address, 'latest'))

  return {
    rpcUrl: anvil.rpcUrl,
    chainId: LOCAL_EVM_CHAIN_ID,
    network: `eip155:${LOCAL_EVM_CHAIN_ID}`,
    usdcAddress: LOCAL_USDC_ADDRESS,
    multicall3Address: MULTICALL3_ADDRESS,
    smartWalletFactory: SMART_WALLET_FACTORY_ADDRESS,
    mnemonic: LOCAL_EVM_MNEMONIC,
    rpc,
    send,
    fundEth: (address, wei) =>
      inTurn(async () => {
        await rpc('anvil_setBalance', address, numberToHex((await balanceEth(address)) + wei))
        await seal()
      }),
    balanceEth,
    mintUsdc: (address, amountAtomic) =>
      inTurn(async () => {
        await addToSlot(mappingSlot(address, testUsdc.storageSlots.balances), amountAtomic)
        await addToSlot(numberToHex(testUsdc.storageSlots.totalSupply, { size: 32 }), amountAtomic)
        await seal()
      }),
    async balanceUsdc(address) {
      return BigInt(await readUsdc(mappingSlot(address, testUsdc.storageSlots.balances)))
    },
    async setBlacklisted(address, isBlacklisted) {
      await writeUsdc(mappingSlot(address, testUsdc.storageSlots.blacklisted), isBlacklisted ? 1n : 0n)
      await seal()
    },
    async setUsdcPaused(isPaused) {
      await writeUsdc(numberToHex(testUsdc.storageSlots.paused, { size: 32 }), isPaused ? 1n : 0n)
      await seal()
    },
    async useToken(token) {
      const { deployedBytecode } = token === 'silent' ? silentUsdc : testUsdc
      await rpc('anvil_setCode', LOCAL_USDC_ADDRESS, deployedBytecode)
      await seal()
    },
    smartWalletAddress,
    smartWalletCalldata,
    async deploySmartWallet(owner, salt = 0n) {
      const [from] = await rpc<[Address]>('eth_accounts')
      await send({ from, to: SMART_WALLET_FACTORY_ADDRESS, data: smartWalletCalldata(owner, salt) })
      return smartWalletAddress(owner, salt)
    },
    async mine(blocks = 1) {
      await rpc('anvil_mine', numberToHex(blocks))
    },
    async setAutomine(isOn) {
      isAutomining = isOn
      await rpc('evm_setAutomine', isOn)
    },
    async reorg(depth) {
      await rpc('anvil_reorg', depth, [])
    },
    async dropTransaction(hash) {
      await rpc('anvil_dropTransaction', hash)
    },
    async setNextBlockBaseFee(weiPerGas) {
      await rpc('anvil_setNextBlockBaseFeePerGas', numberToHex(weiPerGas))
    },
    async advanceTime(seconds) {
      await rpc('evm_increaseTime', seconds)
      await rpc('evm_mine')
    },
    async blockNumber() {
      return BigInt(await rpc<Hex>('eth_blockNumber'))
    },
    close: anvil.stop,
  }
}

/** Slot of `mapping(address => …)[key]`. @see https://docs.soliditylang.org/en/latest/internals/layout_in_storage.html */
function mappingSlot(key: Address, slot: number): Hex {
  return keccak256(encodeAbiParameters([{ type: 'address' }, { type: 'uint256' }], [key, BigInt(slot)]))
}

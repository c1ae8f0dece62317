import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Address,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  maxUint256,
  numberToHex,
  parseAbi,
} from 'viem'
import { createJsonRpcClient, type JsonRpcClient } from '../jsonRpcClient.ts'
import batchSettlement from './artefacts/BatchSettlement.json' with { type: 'json' }
import erc3009DepositCollector from './artefacts/Erc3009DepositCollector.json' with { type: 'json' }
import exactPermit2Proxy from './artefacts/ExactPermit2Proxy.json' with { type: 'json' }
import multicall3 from './artefacts/Multicall3.json' with { type: 'json' }
import permit2 from './artefacts/Permit2.json' with { type: 'json' }
import permit2DepositCollector from './artefacts/Permit2DepositCollector.json' with { type: 'json' }
import silentUsdc from './artefacts/SilentUSDC.json' with { type: 'json' }
import smartWalletFactory from './artefacts/SmartWalletFactory.json' with { type: 'json' }
import testUsdc from './artefacts/TestUSDC.json' with { type: 'json' }
import uptoPermit2Proxy from './artefacts/UptoPermit2Proxy.json' with { type: 'json' }
import { spawnAnvil } from './spawnAnvil.ts'

/** The id of Base Sepolia. The chain reports it, so that unmodified clients recognize the chain's USDC. */
export const LOCAL_EVM_CHAIN_ID = 84532
/** USDC on Base Sepolia. @see https://developers.circle.com/stablecoins/usdc-contract-addresses */
export const LOCAL_USDC_ADDRESS: Address = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
/** Multicall3, which has the same address on every chain. @see https://www.multicall3.com */
export const MULTICALL3_ADDRESS: Address = '0xcA11bde05977b3631167028862bE2a173976CA11'
/** Permit2, which has the same address on every chain. @see https://github.com/Uniswap/permit2 */
export const PERMIT2_ADDRESS: Address = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
/** The x402 proxies of Permit2 for the schemes `exact` and `upto`, which have the same addresses on every chain. */
const EXACT_PERMIT2_PROXY_ADDRESS: Address = '0x402085c248EeA27D92E8b30b2C58ed07f9E20001'
const UPTO_PERMIT2_PROXY_ADDRESS: Address = '0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002'
/** The contract of x402's payment channels, which has the same address on every chain, as do the collectors of its deposits. */
export const BATCH_SETTLEMENT_ADDRESS: Address = '0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003'
export const ERC3009_COLLECTOR_ADDRESS: Address = '0x4020806089470a89826cB9fB1f4059150b550004'
export const PERMIT2_COLLECTOR_ADDRESS: Address = '0x4020425FAf3B746C082C2f942b4E5159887B0005'
/** Factory of wallets with one owner. The address has no meaning on other chains. */
export const SMART_WALLET_FACTORY_ADDRESS: Address = '0x5a17000000000000000000000000000000000001'
/** Mnemonic of anvil's ten funded accounts. It is public, and worthless on other chains. */
export const LOCAL_EVM_MNEMONIC = 'test test test test test test test test test test test junk'

const factoryAbi = parseAbi([
  'function createAccount(address owner, uint256 salt) returns (address)',
  'function getAddress(address owner, uint256 salt) view returns (address)',
])

/** Options of a local EVM chain. */
export type LocalEvmOptions = {
  /** TCP port on 127.0.0.1. If absent, a free port. */
  port?: number
  /** Time between blocks, in ms. If absent, every transaction is mined at once in its own block. */
  blockTimeMs?: number
  /** With `blockTimeMs`, true to mine every transaction at once too. The clock of an idle chain then still advances. */
  minesAtOnce?: boolean
  /** Gas limit of a block. 30,000,000 if absent. */
  blockGas?: number
}

/** A running chain. Amounts of USDC are in its smallest unit (6 decimals), amounts of ether in wei. */
export type LocalEvm = {
  rpcUrl: string
  chainId: number
  /** CAIP-2 name, which is `eip155:84532`. */
  network: string
  usdcAddress: Address
  multicall3Address: Address
  smartWalletFactory: Address
  mnemonic: string
  /** Makes any JSON-RPC call, including `anvil_…` and `evm_…`. */
  rpc: JsonRpcClient
  /**
   * Sends a transaction from one of anvil's accounts or an impersonated account, for which the node needs no key. Waits until the
   * transaction is in a block, unless automine is off.
   *
   * @returns the transaction's hash
   */
  send(transaction: { from: string; to: string; data?: string; gas?: Hex }): Promise<Hex>
  /** Adds ether to a balance. */
  fundEth(address: Address, wei: bigint): Promise<void>
  balanceEth(address: Address): Promise<bigint>
  /** Adds USDC to a balance. This writes to storage and puts the change into a block, without a transaction or a Transfer event. */
  mintUsdc(address: Address, amountAtomic: bigint): Promise<void>
  balanceUsdc(address: Address): Promise<bigint>
  /** Allows Permit2 to transfer this much of the owner's USDC, by a write to storage. Without a limit if no amount is given. */
  allowPermit2(owner: Address, amountAtomic?: bigint): Promise<void>
  /** While true, the token refuses transfers from and to the account. */
  setBlacklisted(address: Address, isBlacklisted: boolean): Promise<void>
  /** While true, the token refuses every call that writes. */
  setUsdcPaused(isPaused: boolean): Promise<void>
  /** Selects the token at the USDC address. `silent` does not revert on a used authorization. Balances stay. */
  useToken(token: 'usdc' | 'silent'): Promise<void>
  /** Address of the wallet of this owner and salt. The wallet need not exist. */
  smartWalletAddress(owner: Address, salt?: bigint): Promise<Address>
  /** Calldata that creates the wallet. ERC-6492 wraps it with the factory's address. */
  smartWalletCalldata(owner: Address, salt?: bigint): Hex
  /** Creates the wallet if it does not exist, and returns its address. If automine is off, call `mine()` too. */
  deploySmartWallet(owner: Address, salt?: bigint): Promise<Address>
  /** Mines blocks now. The first contains the pending transactions. */
  mine(blocks?: number): Promise<void>
  /** If false, transactions wait in the pool until `mine()`. */
  setAutomine(isOn: boolean): Promise<void>
  /** Replaces the last blocks by as many empty blocks. Their transactions are lost, and not in the pool either. */
  reorg(depth: number): Promise<void>
  /** Removes a transaction from the pool. */
  dropTransaction(hash: Hex): Promise<void>
  /** Base fee of the next block, in wei per gas. */
  setNextBlockBaseFee(weiPerGas: bigint): Promise<void>
  /** Advances the chain's clock and mines a block at the new time. */
  advanceTime(seconds: number): Promise<void>
  blockNumber(): Promise<bigint>
  /** Ends the node, and resolves when the process is gone. */
  close(): Promise<void>
}

/**
 * Starts a local EVM chain that unmodified x402 clients accept as Base Sepolia. It is anvil with a test USDC, Multicall3, Permit2
 * with its x402 proxies and the contract of x402's payment channels at their real addresses, and with a factory of ERC-1271 wallets.
 *
 * @example const chain = await startLocalEvm()
 * await chain.mintUsdc(buyer, 5_000_000n) // 5 USDC
 * await chain.close()
 *
 * @throws {LocalChainError} if anvil is not installed or does not start
 */
export async function startLocalEvm(options: LocalEvmOptions = {}): Promise<LocalEvm> {
  const anvil = await spawnAnvil({ port: 0, ...options, chainId: LOCAL_EVM_CHAIN_ID })
  const rpc = createJsonRpcClient(anvil.rpcUrl)
  try {
    await rpc('anvil_setCode', LOCAL_USDC_ADDRESS, testUsdc.deployedBytecode)
    await rpc('anvil_setCode', MULTICALL3_ADDRESS, multicall3.deployedBytecode)
    await rpc('anvil_setCode', SMART_WALLET_FACTORY_ADDRESS, smartWalletFactory.deployedBytecode)
    await rpc('anvil_setCode', PERMIT2_ADDRESS, permit2.deployedBytecode)
    await rpc('anvil_setCode', EXACT_PERMIT2_PROXY_ADDRESS, exactPermit2Proxy.deployedBytecode)
    await rpc('anvil_setCode', UPTO_PERMIT2_PROXY_ADDRESS, uptoPermit2Proxy.deployedBytecode)
    await rpc('anvil_setCode', BATCH_SETTLEMENT_ADDRESS, batchSettlement.deployedBytecode)
    await rpc('anvil_setCode', ERC3009_COLLECTOR_ADDRESS, erc3009DepositCollector.deployedBytecode)
    await rpc('anvil_setCode', PERMIT2_COLLECTOR_ADDRESS, permit2DepositCollector.deployedBytecode)
    // A reorganization returns to the state that is stored with a block. Without this block, it would lose the contracts.
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
  // An addition reads the balance and writes the sum in two calls. If two additions were concurrent, one of them would be lost.
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
  /** Puts the written state into its own block, so that a later `reorg` keeps it. */
  const seal = async () => {
    const pool = await rpc<{ pending: Hex; queued: Hex }>('txpool_status')
    // Pending transactions stay pending, because the test decides when they are mined.
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
    async allowPermit2(owner, amountAtomic = maxUint256) {
      const ofOwner = mappingSlot(owner, testUsdc.storageSlots.allowances)
      await writeUsdc(mappingSlot(PERMIT2_ADDRESS, BigInt(ofOwner)), amountAtomic)
      await seal()
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
function mappingSlot(key: Address, slot: number | bigint): Hex {
  return keccak256(encodeAbiParameters([{ type: 'address' }, { type: 'uint256' }], [key, BigInt(slot)]))
}

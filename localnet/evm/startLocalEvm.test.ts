import { registerHooks } from 'node:module'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import t, { type Test } from 'tap'
import {
  type Address,
  createPublicClient,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  http,
  keccak256,
  parseAbi,
  parseEventLogs,
  serializeErc6492Signature,
} from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { transferTypes } from '../../core/x402/types.ts'
import { type LocalEvm, startLocalEvm } from './startLocalEvm.ts'

const PRICE = 10_000n
const START = 5_000_000n
const DOMAIN = { name: 'USDC', version: '2' }

const usdcAbi = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, bytes signature)',
  'function allowance(address owner, address spender) view returns (uint256)',
  'function authorizationState(address authorizer, bytes32 nonce) view returns (bool)',
  'function nonces(address owner) view returns (uint256)',
  'function name() view returns (string)',
  'function version() view returns (string)',
  'function decimals() view returns (uint8)',
  'function totalSupply() view returns (uint256)',
  'event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
])
const factoryAbi = parseAbi(['function createAccount(address owner, uint256 salt) returns (address)'])

type Authorization = {
  from: Address
  to: Address
  value: bigint
  validAfter: bigint
  validBefore: bigint
  nonce: Hex
}
type WirePayment = {
  signature: Hex
  authorization: Record<'from' | 'to', Address> &
    Record<'value' | 'validAfter' | 'validBefore', string> & { nonce: Hex }
}

async function start(t: Test) {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const client = createPublicClient({ chain: baseSepolia, transport: http(chain.rpcUrl), cacheTime: 0 })
  const buyer = privateKeyToAccount(generatePrivateKey())
  const seller = privateKeyToAccount(generatePrivateKey()).address
  const settler = mnemonicToAccount(chain.mnemonic)
  await chain.mintUsdc(buyer.address, START)
  return { chain, client, buyer, seller, settler }
}

function offer(chain: LocalEvm, payTo: Address) {
  return {
    scheme: 'exact',
    network: 'eip155:84532' as const,
    amount: String(PRICE),
    asset: chain.usdcAddress,
    payTo,
    maxTimeoutSeconds: 60,
    extra: DOMAIN,
  }
}

function sign(chain: LocalEvm, signer: ReturnType<typeof privateKeyToAccount>, message: Authorization) {
  const domain = { ...DOMAIN, chainId: chain.chainId, verifyingContract: chain.usdcAddress }
  return signer.signTypedData({
    domain,
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message,
  })
}

function authorize(from: Address, to: Address, changes: Partial<Authorization> = {}): Authorization {
  const validBefore = BigInt(Math.floor(Date.now() / 1000) + 3_600)
  return { from, to, value: PRICE, validAfter: 0n, validBefore, nonce: generatePrivateKey(), ...changes }
}

function transferCall(authorization: Authorization, signature: Hex): Hex {
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  const args = [from, to, value, validAfter, validBefore, nonce, signature] as const
  return encodeFunctionData({ abi: usdcAbi, functionName: 'transferWithAuthorization', args })
}

function fromWire({ authorization }: WirePayment): Authorization {
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  return {
    from,
    to,
    nonce,
    value: BigInt(value),
    validAfter: BigInt(validAfter),
    validBefore: BigInt(validBefore),
  }
}

/**
 * Sends a call from anvil's first account, whose key the node has. The gas is set, so that a revert is mined
 * too.
 */
async function send(chain: LocalEvm, data: Hex): Promise<Hex> {
  const from = mnemonicToAccount(chain.mnemonic).address
  return chain.send({ from, to: chain.usdcAddress, data, gas: '0x7a120' })
}

t.test('the chain looks like Base Sepolia to a client', async (t) => {
  const { chain, client } = await start(t)
  t.equal(await client.getChainId(), 84532)
  const usdc = { address: chain.usdcAddress, abi: usdcAbi }
  // Through Multicall3, as @x402/evm reads.
  const facts = await client.multicall({
    allowFailure: false,
    contracts: [
      { ...usdc, functionName: 'name' },
      { ...usdc, functionName: 'version' },
      { ...usdc, functionName: 'decimals' },
      { ...usdc, functionName: 'totalSupply' },
    ],
  })
  t.same(facts, ['USDC', '2', 6, START])
})

t.test('a v2 client pays, the payment settles once, and a second use reverts as USDC does', async (t) => {
  const { chain, client, buyer, seller, settler } = await start(t)
  const { payload } = await new ExactEvmScheme(buyer).createPaymentPayload(2, offer(chain, seller))
  const payment = payload as unknown as WirePayment
  const data = transferCall(fromWire(payment), payment.signature)

  const receipt = await client.waitForTransactionReceipt({ hash: await send(chain, data) })
  t.equal(receipt.status, 'success')
  t.equal(await chain.balanceUsdc(seller), PRICE)
  t.equal(await chain.balanceUsdc(buyer.address), START - PRICE)
  const events = parseEventLogs({ abi: usdcAbi, logs: receipt.logs })
  t.same(
    events.map(({ eventName, args }) => ({ eventName, args })),
    [
      {
        eventName: 'AuthorizationUsed',
        args: { authorizer: buyer.address, nonce: payment.authorization.nonce },
      },
      { eventName: 'Transfer', args: { from: buyer.address, to: seller, value: PRICE } },
    ],
  )
  await t.rejects(client.call({ account: settler, to: chain.usdcAddress, data }), {
    message: /FiatTokenV2: authorization is used or canceled/,
  })
})

t.test('the token refuses in the words of USDC', async (t) => {
  const { chain, client, buyer, seller, settler } = await start(t)
  const stranger = privateKeyToAccount(generatePrivateKey())
  const now = BigInt(Math.floor(Date.now() / 1000))
  const refused = async (words: RegExp, authorization: Authorization, signature?: Hex) => {
    const data = transferCall(authorization, signature ?? (await sign(chain, buyer, authorization)))
    await t.rejects(client.call({ account: settler, to: chain.usdcAddress, data }), { message: words })
  }
  const plain = () => authorize(buyer.address, seller)

  await refused(
    /FiatTokenV2: authorization is not yet valid/,
    authorize(buyer.address, seller, { validAfter: now + 900n }),
  )
  await refused(
    /FiatTokenV2: authorization is expired/,
    authorize(buyer.address, seller, { validBefore: now - 10n }),
  )
  await refused(
    /ERC20: transfer amount exceeds balance/,
    authorize(buyer.address, seller, { value: START + 1n }),
  )
  const forged = plain()
  await refused(/FiatTokenV2: invalid signature/, forged, await sign(chain, stranger, forged))
  await refused(/ECRecover: invalid signature length/, plain(), '0x1234')
  await refused(/ECRecover: invalid signature 'v' value/, plain(), `0x${'11'.repeat(64)}05`)
  await refused(/ECRecover: invalid signature 's' value/, plain(), `0x${'ff'.repeat(64)}1b`)

  const receive = authorize(buyer.address, seller)
  const args = [
    receive.from,
    receive.to,
    receive.value,
    receive.validAfter,
    receive.validBefore,
    receive.nonce,
    '0x',
  ] as const
  await t.rejects(
    client.call({
      account: settler,
      to: chain.usdcAddress,
      data: encodeFunctionData({ abi: usdcAbi, functionName: 'receiveWithAuthorization', args }),
    }),
    { message: /FiatTokenV2: caller must be the payee/ },
  )

  await chain.setBlacklisted(seller, true)
  await refused(/Blacklistable: account is blacklisted/, plain())
  await chain.setBlacklisted(seller, false)
  await chain.setUsdcPaused(true)
  await refused(/Pausable: paused/, plain())
  await chain.setUsdcPaused(false)
  const good = plain()
  const data = transferCall(good, await sign(chain, buyer, good))
  await t.resolves(
    client.call({ account: settler, to: chain.usdcAddress, data }),
    'and takes what is in order',
  )
})

t.test('a cancelled authorisation cannot be used, and a permit sets the allowance', async (t) => {
  const { chain, client, buyer, seller, settler } = await start(t)
  const domain = { ...DOMAIN, chainId: chain.chainId, verifyingContract: chain.usdcAddress }
  const authorization = authorize(buyer.address, seller)
  const cancelSignature = await buyer.signTypedData({
    domain,
    types: {
      CancelAuthorization: [
        { name: 'authorizer', type: 'address' },
        { name: 'nonce', type: 'bytes32' },
      ],
    },
    primaryType: 'CancelAuthorization',
    message: { authorizer: buyer.address, nonce: authorization.nonce },
  })
  const cancelArgs = [buyer.address, authorization.nonce, cancelSignature] as const
  await send(
    chain,
    encodeFunctionData({ abi: usdcAbi, functionName: 'cancelAuthorization', args: cancelArgs }),
  )
  const data = transferCall(authorization, await sign(chain, buyer, authorization))
  await t.rejects(client.call({ account: settler, to: chain.usdcAddress, data }), {
    message: /FiatTokenV2: authorization is used or canceled/,
  })

  const deadline = authorization.validBefore
  const permitSignature = await buyer.signTypedData({
    domain,
    types: {
      Permit: [
        { name: 'owner', type: 'address' },
        { name: 'spender', type: 'address' },
        { name: 'value', type: 'uint256' },
        { name: 'nonce', type: 'uint256' },
        { name: 'deadline', type: 'uint256' },
      ],
    },
    primaryType: 'Permit',
    message: { owner: buyer.address, spender: seller, value: 7n, nonce: 0n, deadline },
  })
  const permitArgs = [buyer.address, seller, 7n, deadline, permitSignature] as const
  await send(chain, encodeFunctionData({ abi: usdcAbi, functionName: 'permit', args: permitArgs }))
  const allowance = await client.readContract({
    address: chain.usdcAddress,
    abi: usdcAbi,
    functionName: 'allowance',
    args: [buyer.address, seller],
  })
  t.equal(allowance, 7n)
})

t.test('a contract wallet pays with a signature that is longer than 65 bytes', async (t) => {
  const { chain, client, buyer: owner, seller } = await start(t)
  const wallet = await chain.deploySmartWallet(owner.address)
  t.ok(await client.getCode({ address: wallet }), 'the wallet is there')
  await chain.mintUsdc(wallet, START)
  const authorization = authorize(wallet, seller)
  const inner = await sign(chain, owner, authorization)
  const wrapped = encodeAbiParameters([{ type: 'uint256' }, { type: 'bytes' }], [0n, inner])

  const hash = await send(chain, transferCall(authorization, wrapped))
  t.equal((await client.waitForTransactionReceipt({ hash })).status, 'success')
  t.equal(await chain.balanceUsdc(seller), PRICE)
})

t.test('a wallet that is not deployed yet has a known address and a valid ERC-6492 signature', async (t) => {
  const { chain, client, buyer: owner, seller } = await start(t)
  const wallet = await chain.smartWalletAddress(owner.address, 7n)
  t.equal(await client.getCode({ address: wallet }), undefined)
  const message = authorize(wallet, seller)
  const domain = { ...DOMAIN, chainId: chain.chainId, verifyingContract: chain.usdcAddress }
  const typed = {
    domain,
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message,
  } as const
  const signature = serializeErc6492Signature({
    address: chain.smartWalletFactory,
    data: chain.smartWalletCalldata(owner.address, 7n),
    signature: await sign(chain, owner, message),
  })
  t.equal(await client.verifyTypedData({ ...typed, address: wallet, signature }), true)
  const stranger = privateKeyToAccount(generatePrivateKey())
  const forged = serializeErc6492Signature({
    address: chain.smartWalletFactory,
    data: chain.smartWalletCalldata(owner.address, 7n),
    signature: await sign(chain, stranger, message),
  })
  t.equal(await client.verifyTypedData({ ...typed, address: wallet, signature: forged }), false)

  t.equal(await chain.deploySmartWallet(owner.address, 7n), wallet)
  t.ok(await client.getCode({ address: wallet }), 'it came to be where it was said')
})

t.test('the silent token takes a used authorisation without a revert and without a Transfer', async (t) => {
  const { chain, client, buyer, seller } = await start(t)
  const authorization = authorize(buyer.address, seller)
  const data = transferCall(authorization, await sign(chain, buyer, authorization))
  await chain.useToken('silent')
  const first = await client.waitForTransactionReceipt({ hash: await send(chain, data) })
  const second = await client.waitForTransactionReceipt({ hash: await send(chain, data) })

  t.same([first.status, second.status], ['success', 'success'])
  t.same([first.logs.length, second.logs.length], [2, 0])
  t.equal(await chain.balanceUsdc(seller), PRICE, 'money moved once')
})

t.test('a reorganisation takes a payment back and keeps what was minted before', async (t) => {
  const { chain, client, buyer, seller } = await start(t)
  const authorization = authorize(buyer.address, seller)
  const data = transferCall(authorization, await sign(chain, buyer, authorization))
  const hash = await send(chain, data)
  const before = await client.getTransactionReceipt({ hash })
  await chain.reorg(1)

  t.equal(await chain.blockNumber(), before.blockNumber, 'the chain is as long as before')
  const { hash: blockHash } = await client.getBlock({ blockNumber: before.blockNumber })
  t.not(blockHash, before.blockHash, 'with another block')
  await t.rejects(client.getTransactionReceipt({ hash }), { name: 'TransactionReceiptNotFoundError' })
  t.equal(await chain.balanceUsdc(seller), 0n)
  t.equal(await chain.balanceUsdc(buyer.address), START)
  const again = await client.waitForTransactionReceipt({ hash: await send(chain, data) })
  t.equal(again.status, 'success', 'the authorisation is unused again')
  await chain.mine(4)
  await chain.reorg(5)
  t.equal(await chain.balanceUsdc(seller), 0n, 'from five blocks deep as well')
  t.equal(await chain.balanceUsdc(buyer.address), START)
})

t.test('without automine a payment waits for a block, and can be dropped from the pool', async (t) => {
  const { chain, client, buyer, seller } = await start(t)
  await chain.setAutomine(false)
  const authorization = authorize(buyer.address, seller)
  const data = transferCall(authorization, await sign(chain, buyer, authorization))
  const dropped = await send(chain, data)
  await chain.dropTransaction(dropped)
  await chain.mine()
  t.equal(await chain.balanceUsdc(seller), 0n, 'a dropped one is never mined')

  await send(chain, data)
  await chain.mintUsdc(seller, 1n)
  t.equal(await chain.balanceUsdc(seller), 1n, 'minting does not mine what waits')
  await chain.mine()
  t.equal(await chain.balanceUsdc(seller), 1n + PRICE)
  await chain.setNextBlockBaseFee(5_000_000_000n)
  await chain.mine()
  t.equal((await client.getBlock()).baseFeePerGas, 5_000_000_000n)
})

t.test('ether is given, time moves on request, and close ends the node', async (t) => {
  const chain = await startLocalEvm({ blockTimeMs: 50 })
  const client = createPublicClient({ chain: baseSepolia, transport: http(chain.rpcUrl), cacheTime: 0 })
  const account = privateKeyToAccount(generatePrivateKey()).address
  await Promise.all([5n, 6n, 7n].map((amount) => chain.fundEth(account, amount)))
  t.equal(await chain.balanceEth(account), 18n)
  await Promise.all([1n, 2n, 3n].map((amount) => chain.mintUsdc(account, amount)))
  t.equal(await chain.balanceUsdc(account), 6n)
  const before = (await client.getBlock()).timestamp
  await chain.advanceTime(3_600)
  t.ok((await client.getBlock()).timestamp >= before + 3_600n)
  await chain.close()
  await chain.close()
  await t.rejects(chain.blockNumber(), 'nothing answers any more')
})

t.test('two wallets of one owner differ by their salt', async (t) => {
  const { chain, buyer } = await start(t)
  const [a, b] = [
    await chain.smartWalletAddress(buyer.address, 1n),
    await chain.smartWalletAddress(buyer.address, 2n),
  ]
  t.not(a, b)
  const made = encodeFunctionData({
    abi: factoryAbi,
    functionName: 'createAccount',
    args: [buyer.address, 1n],
  })
  t.equal(keccak256(chain.smartWalletCalldata(buyer.address, 1n)), keccak256(made))
})

t.test('without anvil the error names the package to install', async (t) => {
  const hooks = registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier.startsWith('@foundry-rs/')) throw new Error('not installed')
      return nextResolve(specifier, context)
    },
  })
  t.teardown(() => hooks.deregister())
  await t.rejects(startLocalEvm(), {
    code: 'local_chain_not_installed',
    message: /@foundry-rs\/anvil .*not installed\. In a clone, run `npm install`/,
  })
})

t.test('a port that is taken is told, and leaves no node behind', async (t) => {
  const { chain } = await start(t)
  const port = Number(new URL(chain.rpcUrl).port)
  await t.rejects(startLocalEvm({ port }), { code: 'local_chain_start_failed' })
  t.equal(await chain.blockNumber(), 2n, 'the first one goes on')
})

import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  type Address,
  encodeAbiParameters,
  encodeFunctionData,
  getAddress,
  type Hex,
  parseAbi,
  serializeErc6492Signature,
} from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { transferTypes } from '../../core/x402/types.ts'
import { present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const { evm } = chains
const [chain] = chains.both

/** The payment header of a contract wallet, as its owner's software builds it from the offer. */
async function signFor(
  wallet: Address,
  owner: PrivateKeyAccount,
  url: string,
  wrap: (signature: Hex) => Hex,
): Promise<string> {
  const offer = (await (await fetch(url)).json()) as {
    resource: object
    accepts: { network: string; payTo: Address; amount: string; asset: Address }[]
  }
  const accepted = offer.accepts.find(({ network }) => network === chain.network)!
  const now = Math.floor(Date.now() / 1000)
  const message = {
    from: wallet,
    to: accepted.payTo,
    value: BigInt(accepted.amount),
    validAfter: BigInt(now - 600),
    validBefore: BigInt(now + 300),
    nonce: `0x${randomBytes(32).toString('hex')}` as Hex,
  }
  const signature = await owner.signTypedData({
    domain: { name: 'USDC', version: '2', chainId: evm.chainId, verifyingContract: accepted.asset },
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message,
  })
  const authorization = {
    ...message,
    value: String(message.value),
    validAfter: String(message.validAfter),
    validBefore: String(message.validBefore),
  }
  const payment = {
    x402Version: 2,
    resource: offer.resource,
    accepted,
    payload: { signature: wrap(signature), authorization },
  }
  return Buffer.from(JSON.stringify(payment)).toString('base64')
}

const plain = (signature: Hex) => signature
/** Owner index and signature, as larger contract wallets wrap theirs. */
const wrapped = (signature: Hex) =>
  encodeAbiParameters([{ type: 'uint256' }, { type: 'bytes' }], [0n, signature])
const undeployed = (owner: PrivateKeyAccount) => (signature: Hex) =>
  serializeErc6492Signature({
    address: evm.smartWalletFactory,
    data: evm.smartWalletCalldata(owner.address),
    signature,
  })
const newOwner = () => privateKeyToAccount(generatePrivateKey())

const product = await startProduct(t, {}, chains)
const url = await product.addLink('wallet')

t.test('a contract wallet buys a call by its owner’s signature (ERC-1271)', async (t) => {
  const owner = newOwner()
  const wallet = await evm.deploySmartWallet(owner.address)
  await evm.mintUsdc(wallet, 1_000_000n)
  for (const [i, form] of [plain, wrapped].entries()) {
    const bought = await present(`${url}?n=${i}`, await signFor(wallet, owner, url, form))
    t.equal(bought.status, 200, bought.text)
    t.equal(bought.receipt?.payer, wallet)
  }
  t.equal(await chain.balance(wallet), 980_000n)
  t.equal(await chain.balance(product.wallets.base), 20_000n)

  const stranger = await present(`${url}?n=stranger`, await signFor(wallet, newOwner(), url, plain))
  t.match(stranger, {
    status: 402,
    body: { error: { code: 'invalid_payment', reason: 'invalid_exact_evm_signature' } },
  })
  t.equal(await chain.balance(wallet), 980_000n)
})

t.test(
  'a wallet that is not deployed yet is refused in words, because its factory is not allowed',
  async (t) => {
    const owner = newOwner()
    const wallet = await evm.smartWalletAddress(owner.address)
    await evm.mintUsdc(wallet, 1_000_000n)
    const payment = await signFor(wallet, owner, url, undeployed(owner))
    const refused = await present(`${url}?n=undeployed`, payment)
    t.match(refused, {
      status: 402,
      body: {
        error: { code: 'invalid_payment', reason: 'eip6492_factory_not_allowed', message: /factor/i },
      },
    })
    t.equal(await chain.balance(wallet), 1_000_000n)
    t.equal(await evm.rpc('eth_getCode', wallet, 'latest'), '0x', 'nothing was deployed')
  },
)

/** Coinbase Smart Wallet 1.1 and 1. Here our factory's code is there: a wallet's address is the factory's own to give. */
const usualFactories: readonly Address[] = [
  '0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842',
  '0x0BA5ED0c6AA8c49038F819E587E2633c4A9F428a',
]

t.test(
  'a new wallet of a usual factory is made by its first payment as the gateway is installed',
  async (t) => {
    const code = await evm.rpc('eth_getCode', evm.smartWalletFactory, 'latest')
    for (const factory of usualFactories) {
      await evm.rpc('anvil_setCode', factory, code)
      const owner = newOwner()
      const data = encodeFunctionData({
        abi: parseAbi(['function getAddress(address owner, uint256 salt) view returns (address)']),
        args: [owner.address, 0n],
      })
      const word = await evm.rpc<Hex>('eth_call', { to: factory, data }, 'latest')
      const wallet = getAddress(`0x${word.slice(26)}`)
      await evm.mintUsdc(wallet, 1_000_000n)
      const first = (signature: Hex) =>
        serializeErc6492Signature({
          address: factory,
          data: evm.smartWalletCalldata(owner.address),
          signature,
        })
      const before = await chain.balance(product.wallets.base)
      const bought = await present(`${url}?n=${factory}`, await signFor(wallet, owner, url, first))
      t.equal(bought.status, 200, bought.text)
      t.equal((await chain.balance(product.wallets.base)) - before, 10_000n)
      t.not(await evm.rpc('eth_getCode', wallet, 'latest'), '0x')
    }
  },
)

t.test(
  'where the operator allows the factory, the wallet is made on the way and pays (ERC-6492)',
  async (t) => {
    const facilitator = {
      privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}',
      factories: [evm.smartWalletFactory],
      maxGas: 1_000_000,
    }
    const open = await startProduct(t, { evm: { facilitator } }, chains)
    const openUrl = await open.addLink('open')
    const owner = newOwner()
    const wallet = await evm.smartWalletAddress(owner.address)
    await evm.mintUsdc(wallet, 1_000_000n)
    const bought = await present(`${openUrl}?n=1`, await signFor(wallet, owner, openUrl, undeployed(owner)))
    t.equal(bought.status, 200, bought.text)
    t.equal(await chain.balance(open.wallets.base), 10_000n)
    t.not(await evm.rpc('eth_getCode', wallet, 'latest'), '0x')
    const again = await present(`${openUrl}?n=2`, await signFor(wallet, owner, openUrl, plain))
    t.equal(again.status, 200, 'from then on it is a wallet like any other')
  },
)

import { generateKeyPairSync, sign } from 'node:crypto'
import { base58 } from '@scure/base'
import fc from 'fast-check'
import t from 'tap'
import { encodeAbiParameters, getAddress, type Hex, hashMessage, serializeErc6492Signature } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createSiweMessage, parseSiweMessage } from 'viem/siwe'
import type { SignInFields } from '../../../core/ports/chains/wallets.ts'
import { startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { startFaultyRpc } from '../../../test/helpers/localnet/startFaultyRpc.ts'
import { createWalletProofs } from './walletProofs.ts'

const proofs = createWalletProofs()
const account = () => privateKeyToAccount(generatePrivateKey())
const fieldsFor = (chain: 'base' | 'solana', address: string): SignInFields => ({
  chain,
  address,
  domain: 'pay.example:8443',
  uri: 'https://pay.example:8443/api/agent/signup',
  statement: 'Sign in to Tollgate. It costs nothing.',
  nonce: '0123456789abcdef',
  issuedAtMs: Date.UTC(2026, 10, 21, 9, 30),
  expiresAtMs: Date.UTC(2026, 10, 21, 9, 35),
})

function solanaWallet() {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const address = base58.encode(Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url'))
  return { address, sign: (message: string) => sign(null, Buffer.from(message), privateKey) }
}

t.test('the text for Base is EIP-4361, as viem writes and reads it', async (t) => {
  const fields = fieldsFor('base', account().address)
  const text = proofs.signInMessage(fields)
  const { address, domain, uri, statement, nonce } = fields
  const [issuedAt, expirationTime] = [new Date(fields.issuedAtMs), new Date(fields.expiresAtMs)]
  const message = {
    domain,
    uri,
    statement,
    nonce,
    issuedAt,
    expirationTime,
    version: '1',
    chainId: 8453,
  } as const
  t.equal(text, createSiweMessage({ ...message, address: address as Hex }))
  t.match(parseSiweMessage(text), { address, nonce, chainId: 8453 })
  t.match(createWalletProofs({ evmChainId: 84532 }).signInMessage(fields), /\nChain ID: 84532\n/)
})

t.test('the text for Solana names Solana, and no field can forge another', async (t) => {
  const { address } = solanaWallet()
  const fields = fieldsFor('solana', address)
  t.equal(
    proofs.signInMessage(fields),
    `pay.example:8443 wants you to sign in with your Solana account:
${address}

Sign in to Tollgate. It costs nothing.

URI: https://pay.example:8443/api/agent/signup
Version: 1
Nonce: 0123456789abcdef
Issued At: 2026-11-21T09:30:00.000Z
Expiration Time: 2026-11-21T09:35:00.000Z`,
  )
  for (const field of ['address', 'domain', 'uri', 'statement', 'nonce'] as const) {
    for (const text of ['x\nNonce: 1', 'x\rNonce: 1', 'x\u2028Nonce: 1', '', '\u202etxet']) {
      t.throws(() => proofs.signInMessage({ ...fields, [field]: text }), { code: 'VALIDATION_ERROR' }, field)
    }
  }
})

t.test('an account’s signature over exactly this text proves it, and nothing else does', async (t) => {
  const owner = account()
  const message = proofs.signInMessage(fieldsFor('base', owner.address))
  const signature = await owner.signMessage({ message })
  t.ok(await proofs.verifyMessage('base', owner.address, message, signature))
  t.ok(await proofs.verifyMessage('base', owner.address.toLowerCase(), message, signature))
  const bare = `${signature.slice(0, 130)}${signature.endsWith('1b') ? '00' : '01'}`
  t.ok(
    await proofs.verifyMessage('base', owner.address, message, bare),
    'v as some hardware wallets write it',
  )

  t.notOk(await proofs.verifyMessage('base', account().address, message, signature), 'another account')
  t.notOk(await proofs.verifyMessage('base', owner.address, `${message} `, signature), 'another text')
  t.notOk(
    await proofs.verifyMessage('base', owner.address, message, await account().signMessage({ message })),
  )
  const raw = await owner.sign({ hash: hashMessage('another') })
  for (const wrong of [
    raw,
    '',
    '0x',
    'x',
    signature.slice(2),
    `${signature}00`,
    signature.slice(0, -2),
    `0x${'00'.repeat(65)}`,
  ]) {
    t.notOk(await proofs.verifyMessage('base', owner.address, message, wrong), wrong.slice(0, 20))
  }
  const emoji = await owner.signMessage({ message: '🐧 ümlaut' })
  t.ok(
    await proofs.verifyMessage('base', owner.address, '🐧 ümlaut', emoji),
    'the length is counted in bytes',
  )
})

t.test('a Solana signature counts in base64 and in base58', async (t) => {
  const wallet = solanaWallet()
  const message = proofs.signInMessage(fieldsFor('solana', wallet.address))
  const signature = wallet.sign(message)
  t.ok(await proofs.verifyMessage('solana', wallet.address, message, signature.toString('base64')))
  t.ok(await proofs.verifyMessage('solana', wallet.address, message, base58.encode(signature)))
  t.notOk(await proofs.verifyMessage('solana', solanaWallet().address, message, base58.encode(signature)))
  t.notOk(await proofs.verifyMessage('solana', wallet.address, `${message}.`, base58.encode(signature)))
  for (const wrong of [
    '',
    signature.toString('hex'),
    signature.toString('base64url'),
    base58.encode(signature.subarray(1)),
  ]) {
    t.notOk(await proofs.verifyMessage('solana', wallet.address, message, wrong), wrong.slice(0, 20))
  }
  const everybody = Buffer.alloc(64)
  everybody[0] = 1
  const system = '11111111111111111111111111111111'
  t.notOk(
    await proofs.verifyMessage('solana', system, message, base58.encode(everybody)),
    'a key of small order',
  )
})

t.test('an address has one spelling', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
      const lower = `0x${Buffer.from(bytes).toString('hex')}`
      const checksummed = getAddress(lower)
      const upper = `0x${lower.slice(2).toUpperCase()}`
      const flipped = checksummed.replace(/[a-f]/i, (c) =>
        c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase(),
      )
      const isMixed = flipped !== checksummed && flipped !== lower && flipped !== upper
      return (
        [lower, upper, checksummed].every((form) => proofs.canonicalAddress('base', form) === checksummed) &&
        (!isMixed || proofs.canonicalAddress('base', flipped) === undefined)
      )
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 30, maxLength: 34 }), (bytes) => {
      const text = base58.encode(bytes)
      return proofs.canonicalAddress('solana', text) === (bytes.length === 32 ? text : undefined)
    }),
  )
  const { address } = solanaWallet()
  for (const wrong of [
    '',
    ` ${address}`,
    `${address}\n`,
    `1${address}`,
    `0x${'1'.repeat(40)}`,
    '0'.repeat(32),
  ]) {
    t.equal(proofs.canonicalAddress('solana', wrong), undefined, wrong)
  }
  for (const wrong of [
    '',
    '0x',
    address,
    '1'.repeat(42),
    `0X${'1'.repeat(40)}`,
    `0x${'1'.repeat(41)}`,
    `0x${'1'.repeat(40)}\n`,
  ]) {
    t.equal(proofs.canonicalAddress('base', wrong), undefined, wrong)
  }
})

t.test('no text makes it throw or accept', async () => {
  const owner = account()
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('base' as const, 'solana' as const),
      fc.oneof(
        fc.string(),
        fc.constant(owner.address),
        fc.constant('So11111111111111111111111111111111111111112'),
      ),
      fc.string(),
      fc.oneof(
        fc.string(),
        fc.base64String(),
        fc.uint8Array({ maxLength: 200 }).map((b) => `0x${Buffer.from(b).toString('hex')}`),
      ),
      async (chain, address, message, signature) =>
        !(await proofs.verifyMessage(chain, address, message, signature)),
    ),
    { numRuns: 300 },
  )
})

t.test('a contract wallet signs in, deployed or not, and only on the chain of the text', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(() => rpc.close())
  const withNodes = createWalletProofs({ evmRpcUrls: [rpc.url], evmChainId: 84532 })
  const owner = account()
  const message = 'sign in'
  const signature = await owner.signMessage({ message })
  const future = await chain.smartWalletAddress(owner.address, 7n)
  const wrapped = (signed: Hex) =>
    serializeErc6492Signature({
      address: chain.smartWalletFactory,
      data: chain.smartWalletCalldata(owner.address, 7n),
      signature: signed,
    })
  t.ok(await withNodes.verifyMessage('base', future, message, wrapped(signature)), 'ERC-6492')
  t.equal(await chain.rpc('eth_getCode', future, 'latest'), '0x', 'and nothing was deployed')
  t.notOk(
    await withNodes.verifyMessage('base', future, message, wrapped(await account().signMessage({ message }))),
  )
  t.notOk(
    await withNodes.verifyMessage('base', account().address, message, wrapped(signature)),
    'not the factory’s to give',
  )
  t.notOk(
    await withNodes.verifyMessage('base', future, message, signature),
    'there is no contract to ask yet',
  )

  const wallet = await chain.deploySmartWallet(owner.address)
  const inner = encodeAbiParameters([{ type: 'uint256' }, { type: 'bytes' }], [0n, signature])
  t.ok(await withNodes.verifyMessage('base', wallet, message, signature), 'ERC-1271')
  t.strictSame(
    await withNodes.proofOf('eip155:84532', wallet, message, signature),
    { network: 'eip155:84532' },
    'a contract of this chain',
  )
  t.equal(await withNodes.proofOf('eip155:137', wallet, message, signature), 'unchecked')
  t.strictSame(await withNodes.proofOf('eip155:137', owner.address, message, signature), { network: null })
  t.ok(await withNodes.verifyMessage('base', wallet, message, inner), 'of any length')
  t.notOk(await withNodes.verifyMessage('base', wallet, 'sign up', signature))
  t.notOk(
    await proofs.verifyMessage('base', wallet, message, signature),
    'without a node only keys can sign in',
  )

  const elsewhere = createWalletProofs({ evmRpcUrls: [rpc.url], evmChainId: 8453 })
  await t.rejects(
    elsewhere.verifyMessage('base', wallet, message, signature),
    'a node of another chain is not believed',
  )
  t.ok(await elsewhere.verifyMessage('base', owner.address, message, signature), 'a key needs no node')
  rpc.add('*', { kind: 'refuse' })
  await t.rejects(
    withNodes.verifyMessage('base', account().address, message, signature),
    'a chain that is away says nothing',
  )
})

t.test('a contract that the EVM stops has refused the signature, and is no fault of the node', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const withNodes = createWalletProofs({ evmRpcUrls: [chain.rpcUrl], evmChainId: 84532 })
  const codes = {
    revert: '0x5f5ffd',
    'invalid opcode': '0xfe',
    'unknown opcode': '0x0c',
    'invalid jump': '0x600156',
    'stack underflow': '0x50',
    'stack overflow': '0x5b5f600056',
    'too much memory': '0x63ffffffff5ff3',
    'an endless loop': '0x5b600056',
    'a write in a view': '0x5f5f55',
    'return data out of bounds': '0x60205f5f3e',
  }
  const contract = account().address
  for (const [name, code] of Object.entries(codes)) {
    await chain.rpc('anvil_setCode', contract, code)
    t.equal(await withNodes.proofOf('eip155:84532', contract, 'sign in', '0x1234'), undefined, name)
  }
})

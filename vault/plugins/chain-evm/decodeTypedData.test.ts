import t from 'tap'
import { hashMessage, recoverMessageAddress, recoverTypedDataAddress, serializeTransaction } from 'viem'
import { keccak256 } from '../../../core/evm/hex.ts'
import { permit2Proxies } from '../../../core/evm/permit2.ts'
import {
  account,
  decoded,
  other,
  sign,
  unsigned,
  usdc,
} from '../../../test/helpers/vault/plugins/chain-evm/evm.ts'
import { pinnedAssets, type VaultChain } from '../../effects/assets.ts'
import { budgetSpends } from '../../effects/effect.ts'
import { permit2Address } from './decodeTransaction.ts'
import plugin from './index.ts'

const typed = (typedData: unknown, chain: VaultChain = 'base') =>
  plugin.decodeTypedData!({ chain, account, typedData, assets: pinnedAssets })
const message = (text: unknown, encoding: 'utf8' | 'hex' | 'base64' = 'utf8') =>
  plugin.decodeMessage({ chain: 'base', account, message: text, encoding, assets: pinnedAssets })

const fields = (text: string) =>
  text.split(',').map((field) => ({ type: field.split(' ')[0]!, name: field.split(' ')[1]! }))
const facilitator = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
const domain = { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: usdc }
const permit = {
  domain,
  types: { Permit: fields('address owner,address spender,uint256 value,uint256 nonce,uint256 deadline') },
  primaryType: 'Permit',
  message: { owner: account, spender: other, value: '5000000', nonce: 0, deadline: 1_900_000_000 },
}
const authorization = {
  domain,
  types: {
    TransferWithAuthorization: fields(
      'address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce',
    ),
  },
  primaryType: 'TransferWithAuthorization',
  message: {
    from: account,
    to: other,
    value: '7',
    validAfter: 0,
    validBefore: 1_900_000_000,
    nonce: `0x${'11'.repeat(32)}`,
  },
}

t.test('permits are allowances, authorisations are transfers', async (t) => {
  const allowance = decoded(typed(permit))
  t.match(allowance.effects, [{ kind: 'allowance', amount: 5_000_000n, spender: other, owner: account }])
  t.equal(allowance.isOpaque, false)
  const transfer = decoded(typed(JSON.stringify(authorization)))
  t.match(transfer.effects, [{ kind: 'transfer', amount: 7n, from: account, to: other }])
  t.equal(transfer.isOpaque, false)
  const { signature, signedTx } = plugin.assemble(transfer, sign(transfer.signingBytes))
  t.equal(signedTx, null)
  const signer = await recoverTypedDataAddress({ ...authorization, signature } as never)
  t.equal(signer, account)
})

t.test('a deadline is the last moment to submit a permit, and no end of what it allows', async (t) => {
  const at = '2030-03-17T17:46:40.000Z'
  const read = decoded(typed(permit))
  const [effect] = read.effects
  t.match(effect, { submitBefore: 1_900_000_000n })
  t.notOk(Object.hasOwn(effect!, 'expiresAt'))
  t.match(read.plainWords, [`take up to 5 USDC, without an expiry; any account can submit this until ${at}.`])
  t.match(read.warnings, [/does not expire/])
  const back = decoded(typed({ ...permit, message: { ...permit.message, value: 0 } }))
  t.match(back.plainWords, [
    `Revoke what ${other} may take of USDC; any account can submit this until ${at}.`,
  ])

  const dai = {
    ...permit,
    types: { Permit: fields('address holder,address spender,uint256 nonce,uint256 expiry,bool allowed') },
    message: { holder: account, spender: other, nonce: 0, expiry: 1_900_000_000, allowed: true },
  }
  const everything = {
    kind: 'allowance',
    owner: account,
    spender: other,
    isUnlimited: true,
    expiresAt: undefined,
  }
  t.match(decoded(typed(dai)).effects, [{ ...everything, submitBefore: 1_900_000_000n }])
  t.match(decoded(typed(dai)).plainWords, [/ALL USDC, now and later, without an expiry/])
  t.match(
    decoded(typed({ ...dai, message: { ...dai.message, expiry: 0 } })).effects,
    [{ ...everything, submitBefore: 2n ** 256n - 1n }],
    'none at all',
  )
  t.match(decoded(typed({ ...dai, message: { ...dai.message, allowed: false } })).effects, [{ amount: 0n }])

  t.match(decoded(typed(authorization)).effects, [{ validAfter: 0n, validBefore: 1_900_000_000n }])
  const later = { ...authorization, message: { ...authorization.message, validAfter: 1_899_999_999 } }
  t.match(decoded(typed(later)).plainWords, [
    /submitted by any account until .*, not before 2030-03-17T17:46:39/,
  ])
})

t.test('Permit2 messages name their tokens, in singles and in batches', async (t) => {
  const tokens = { token: usdc, amount: '9', expiration: 100, nonce: 0 }
  const batch = {
    domain: { name: 'Permit2', chainId: 8453, verifyingContract: permit2Address },
    types: {
      PermitBatch: fields('PermitDetails[] details,address spender,uint256 sigDeadline'),
      PermitDetails: fields('address token,uint160 amount,uint48 expiration,uint48 nonce'),
    },
    primaryType: 'PermitBatch',
    message: { details: [tokens, { ...tokens, token: other }], spender: other, sigDeadline: 1 },
  }
  const read = decoded(typed(batch))
  t.match(read.effects, [
    { kind: 'allowance', amount: 9n, asset: { symbol: 'USDC' }, owner: account },
    { kind: 'allowance', asset: { isPinned: false } },
  ])
  t.ok(read.isOpaque, 'one of the tokens is not known')
  t.match(read.effects, [{ expiresAt: 100n, submitBefore: 1n }, {}], 'its end and its deadline')
  const block = { ...batch, message: { ...batch.message, details: [{ ...tokens, expiration: 0 }] } }
  t.match(decoded(typed(block)).plainWords, [
    /only within the block that includes it; any account can submit/,
  ])
  const once = {
    ...batch,
    types: {
      PermitTransferFrom: fields('TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline'),
      TokenPermissions: fields('address token,uint256 amount'),
    },
    primaryType: 'PermitTransferFrom',
    message: { permitted: { token: usdc, amount: '4' }, spender: other, nonce: 1, deadline: 5 },
  }
  t.match(decoded(typed(once)), {
    isOpaque: false,
    effects: [{ kind: 'allowance', amount: 4n, expiresAt: 5n, submitBefore: 5n }],
  })
})

t.test('a Permit2 message with a witness is opaque, whatever it permits', async (t) => {
  const read = decoded(
    typed({
      domain: { name: 'Permit2', chainId: 8453, verifyingContract: permit2Address },
      types: {
        PermitWitnessTransferFrom: fields(
          'TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Order witness',
        ),
        TokenPermissions: fields('address token,uint256 amount'),
        Order: fields('uint256 id'),
      },
      primaryType: 'PermitWitnessTransferFrom',
      message: {
        permitted: { token: usdc, amount: '4' },
        spender: other,
        nonce: 1,
        deadline: '99999999999999',
        witness: { id: 1 },
      },
    }),
  )
  t.equal(read.isOpaque, true)
  t.match(read.effects, [{ kind: 'opaque' }, { kind: 'allowance', amount: 4n, spender: other }])
  t.match(budgetSpends(read), [{ amount: 4n, recipient: other }], 'what it permits is counted all the same')
})

const x402Permit = (witnessType: string, spender: string, witness: object) => ({
  domain: { name: 'Permit2', chainId: 8453, verifyingContract: permit2Address },
  types: {
    PermitWitnessTransferFrom: fields(
      'TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness',
    ),
    TokenPermissions: fields('address token,uint256 amount'),
    Witness: fields(witnessType),
  },
  primaryType: 'PermitWitnessTransferFrom',
  message: {
    permitted: { token: usdc, amount: '70000' },
    spender,
    nonce: '1',
    deadline: '1900000000',
    witness,
  },
})
const uptoPermit = x402Permit('address to,address facilitator,uint256 validAfter', permit2Proxies.upto, {
  to: other,
  facilitator,
  validAfter: '0',
})
const exactPermit = x402Permit('address to,uint256 validAfter', permit2Proxies.exact, {
  to: other,
  validAfter: '0',
})

t.test('an x402 payment by Permit2 is a transfer to the payee of its witness', async (t) => {
  const at = '2030-03-17T17:46:40.000Z'
  const upto = decoded(typed(uptoPermit))
  t.match(upto, {
    isOpaque: false,
    effects: [{ kind: 'transfer', isMost: true, amount: 70_000n, to: other, submitter: facilitator }],
    plainWords: [`Send at most 0.07 USDC to ${other}, submitted by ${facilitator} until ${at}. (Base)`],
  })
  t.match(budgetSpends(upto), [{ amount: 70_000n, recipient: other }], 'the most counts')
  const exact = decoded(typed(exactPermit))
  t.match(exact.plainWords, [`Send 0.07 USDC to ${other}, submitted by any account until ${at}. (Base)`])
  t.equal(exact.isOpaque, false)
  const { signature } = plugin.assemble(upto, sign(upto.signingBytes))
  t.equal(await recoverTypedDataAddress({ ...uptoPermit, signature } as never), account)
})

t.test('a permit that only resembles an x402 payment stays opaque', async (t) => {
  const near = (change: object) => ({ ...uptoPermit, ...change })
  const message = (change: object) => near({ message: { ...uptoPermit.message, ...change } })
  const cases: [string, unknown][] = [
    ['another spender', message({ spender: other })],
    ['the proxy of the other scheme', message({ spender: permit2Proxies.exact })],
    [
      'the proxy of the other scheme',
      { ...exactPermit, message: { ...exactPermit.message, spender: permit2Proxies.upto } },
    ],
    ['another contract', near({ domain: { ...uptoPermit.domain, verifyingContract: other } })],
    ['another name', near({ domain: { ...uptoPermit.domain, name: 'Permit3' } })],
    ['a version', near({ domain: { ...uptoPermit.domain, version: '1' } })],
    ['a salt', near({ domain: { ...uptoPermit.domain, salt: `0x${'00'.repeat(32)}` } })],
    ['no chain', near({ domain: { name: 'Permit2', verifyingContract: permit2Address } })],
    ['an unknown token', message({ permitted: { token: other, amount: '1' } })],
    [
      'a witness in another order',
      near({
        types: {
          ...uptoPermit.types,
          Witness: fields('address facilitator,address to,uint256 validAfter'),
        },
      }),
    ],
  ]
  for (const [why, data] of cases) t.equal(decoded(typed(data)).isOpaque, true, why)
  t.match(typed(near({ domain: { ...uptoPermit.domain, chainId: 1 } })), { code: 'CHAIN_MISMATCH' })
})

t.test('the case of the contract hides nothing, for what is signed is the same', async (t) => {
  const upper = (address: string) => `0x${address.slice(2).toUpperCase()}`
  const flipped = (address: string) =>
    address.replace(/[a-f](?=[^a-f]*$)/i, (c) => (c < 'a' ? c.toLowerCase() : c.toUpperCase()))
  const permit2 = {
    domain: { name: 'Permit2', chainId: 8453, verifyingContract: permit2Address },
    types: {
      PermitTransferFrom: fields('TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline'),
      TokenPermissions: fields('address token,uint256 amount'),
    },
    primaryType: 'PermitTransferFrom',
    message: { permitted: { token: usdc, amount: '4' }, spender: other, nonce: 1, deadline: '5' },
  }
  for (const data of [permit, authorization, permit2, uptoPermit, exactPermit]) {
    const plain = decoded(typed(data))
    t.equal(plain.isOpaque, false)
    for (const spelled of [upper, flipped, (address: string) => address.toLowerCase()]) {
      const verifyingContract = spelled(data.domain.verifyingContract)
      const read = decoded(typed({ ...data, domain: { ...data.domain, verifyingContract } }))
      t.strictSame([read.isOpaque, read.effects], [false, plain.effects], verifyingContract)
      t.strictSame(read.signingBytes, plain.signingBytes)
    }
  }
})

t.test('anything that only looks familiar is opaque', async (t) => {
  for (const [why, data] of [
    [
      'a field more',
      {
        ...permit,
        types: { Permit: [...permit.types.Permit, { name: 'x', type: 'bool' }] },
        message: { ...permit.message, x: true },
      },
    ],
    ['another domain name', { ...permit, domain: { ...domain, name: 'USDC' } }],
    ['a token that is not known', { ...permit, domain: { ...domain, verifyingContract: other } }],
    ['no chain', { ...permit, domain: { name: 'USD Coin', version: '2', verifyingContract: usdc } }],
    ['a salt', { ...permit, domain: { ...domain, salt: `0x${'00'.repeat(32)}` } }],
    [
      'something else',
      {
        domain: { ...domain },
        types: { Vote: fields('uint8 choice') },
        primaryType: 'Vote',
        message: { choice: 1 },
      },
    ],
  ] as const) {
    t.ok(decoded(typed(data)).isOpaque, why)
  }
})

t.test('another chain, foreign fields and a false EIP712Domain are refused', async (t) => {
  t.match(typed({ ...permit, domain: { ...domain, chainId: 1 } }), { ok: false, code: 'CHAIN_MISMATCH' })
  t.match(typed({ ...permit, domain: { ...domain, chainId: 'x' } }), { ok: false, code: 'CHAIN_MISMATCH' })
  t.match(typed({ ...permit, more: 1 }), { ok: false, code: 'VALIDATION_ERROR' })
  t.match(typed({ ...permit, types: { ...permit.types, EIP712Domain: fields('string name') } }), {
    ok: false,
  })
  const all = fields('string name,string version,uint256 chainId,address verifyingContract')
  t.match(typed({ ...permit, types: { ...permit.types, EIP712Domain: all } }), { ok: true })
  t.match(typed('{"domain":{},"domain":{}}'), { ok: false, code: 'VALIDATION_ERROR' })
})

t.test('a message is text for people: transactions, typed data and hashes are refused', async (t) => {
  const text = decoded(message('I am the owner of this wallet.'))
  t.match(text, { isOpaque: false, effects: [{ kind: 'note' }], signKind: 'evm-message' })
  const { signature } = plugin.assemble(
    text,
    sign(Buffer.concat([prefixOf(text.signingBytes), text.signingBytes])),
  )
  t.equal(
    await recoverMessageAddress({
      message: 'I am the owner of this wallet.',
      signature: signature as `0x${string}`,
    }),
    account,
  )
  t.ok(hashMessage('x').length === 66)
  const preimage = decoded(typed(permit)).signingBytes
  const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}`
  const legacy = serializeTransaction({
    type: 'legacy',
    chainId: 1,
    nonce: 1,
    gas: 1n,
    gasPrice: 1n,
    to: other,
  })
  for (const [why, bytes] of [
    ['an unsigned transaction', unsigned()],
    ['a legacy one', legacy],
    ['a digest', hex(keccak256(preimage))],
    ['typed data', hex(preimage)],
    ['a prefixed message', hex(Buffer.from('\x19Ethereum Signed Message:\n1a', 'latin1'))],
    ['nothing', '0x'],
  ] as const) {
    t.match(message(bytes, 'hex'), { ok: false, code: 'VALIDATION_ERROR' }, why)
  }
  t.match(message('é, こんにちは、これは署名のための文です。ウォレットの所有者'), { ok: true }, 'any script')
  t.ok(decoded(message('0xff00ff', 'hex')).isOpaque, 'bytes that are no text')
  t.match(decoded(message('pay \u202e evil')).plainWords, ['Write a text of 10 characters. (Base)'])
})

t.test('a text that can be read is a text, whatever its length and its bytes', async (t) => {
  const asHash = 'The text is as long as a hash. Sign it only if you can read it.'
  for (const text of ['a'.repeat(32), 'é'.repeat(16), 'ключ'.repeat(4), `${'one\ttwo\r\n'.repeat(3)}12345`]) {
    t.equal(Buffer.byteLength(text), 32)
    t.match(decoded(message(text)), {
      effects: [{ kind: 'note', text }],
      warnings: [asHash],
      isOpaque: false,
    })
  }
  t.strictSame(decoded(message('a'.repeat(31))).warnings, [])
  const unreadable = ['ab'.repeat(32), `${'61'.repeat(31)}00`, `${'61'.repeat(29)}e280ae`, 'c3'.repeat(32)]
  for (const hex of unreadable) t.match(message(`0x${hex}`, 'hex'), { ok: false }, hex)
  // Their bytes are lists of six or more fields, but not a transaction.
  for (const text of ['ƀabcde', 'Ȁabcdefg', 'xȀabcdefg', 'рabcdefghijklmnop'])
    t.match(decoded(message(text)).effects, [{ kind: 'note', text }])
})

function prefixOf(bytes: Uint8Array): Buffer {
  return Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`, 'latin1')
}

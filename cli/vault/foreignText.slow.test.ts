import t from 'tap'
import { foreignTexts, foreignWord } from '../../test/helpers/vault/foreignTexts.ts'
import { decoded, memo, transferChecked } from '../../test/helpers/vault/plugins/chain-solana/solana.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import { pinnedAssets } from '../../vault/effects/assets.ts'
import { plainWords } from '../../vault/effects/plainWords.ts'
import { approvalText } from '../../vault/plugins/telegram/approvalText.ts'
import { approvalCard } from './approvalCommands.ts'

const noWait = { prefer: 'wait=0' }

const typedData = (text: string) => ({
  domain: { name: text, version: text, chainId: 8453 },
  types: { Note: [{ name: 'text', type: 'string' }] },
  primaryType: 'Note',
  message: { text },
})

const offer = (description: string, url: string) => ({
  x402Version: 2,
  resource: { url, description, mimeType: 'text/plain' },
  accepts: [
    {
      scheme: 'exact',
      network: 'eip155:8453',
      amount: '250000',
      asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
      payTo: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
      maxTimeoutSeconds: 60,
      extra: { name: 'USD Coin', version: '2' },
    },
  ],
})

/** The text in the form that a URL allows: paths with two meanings are refused. */
const inUrl = (text: string) => encodeURIComponent(text.slice(-80).replaceAll(/[^\w.!*'()-]/g, '-'))

/** Every field through which a text of an agent or a seller reaches an approval. */
const places: Readonly<Record<string, (text: string, i: number) => [path: string, body: object]>> = {
  purpose: (text, i) => ['sign', { ...signBody('2', i), purpose: text }],
  message: (text) => ['sign-message', { chain: 'base', message: text }],
  'sign-in': (text) => [
    'sign-message',
    {
      chain: 'base',
      message: `${text} wants you to sign in with your Ethereum account:\n${text}\n\nURI: ${text}`,
    },
  ],
  'typed data': (text) => ['sign-typed-data', { chain: 'base', typed_data: typedData(text) }],
  'description of an offer': (text) => [
    'sign-payment',
    { payment_required: offer(text, 'https://api.example.com/hello'), max_amount: '0.25' },
  ],
  'address of an offer': (text) => [
    'sign-payment',
    { payment_required: offer('', `https://api.example.com/${inUrl(text)}`), max_amount: '0.25' },
  ],
  call: (text) => [
    'call',
    {
      scope: 'credentials.api.shop',
      method: 'POST',
      url: `https://api.shop.example/${inUrl(text)}`,
      body: text,
    },
  ],
  value: (text) => ['write', { scope: 'identity.name', value: text }],
}

t.test('no text of an agent or a seller stands in a sentence of the vault', async (t) => {
  const vault = await startVault(t)
  await vault.asOwner('POST', '/v1/vault/write', {
    scope: 'credentials.api.shop',
    value: 'a-secret-of-the-shop',
    settings: { rules: [{ origin: 'https://api.shop.example', methods: ['POST'], paths: ['/**'] }] },
  })
  for (const [place, request] of Object.entries(places)) {
    // An agent may have 30 requests per hour that were not approved.
    const half = foreignTexts.length / 2
    for (const [n, texts] of [foreignTexts.slice(0, half), foreignTexts.slice(half)].entries()) {
      const agent = await vault.agent(`${place.replaceAll(' ', '-')}-${n}`, [
        'wallet.base',
        'ask:write:identity.*',
        'ask:call:credentials.api.shop',
      ])
      for (const [i, text] of texts.entries()) {
        const [path, body] = request(text, i)
        const { status, body: pendingApproval } = await agent.call('POST', `/v1/vault/${path}`, body, noWait)
        t.equal(status, 202, `${place}: ${JSON.stringify(pendingApproval)}`)
        const view = vault.api.approvals.get(pendingApproval.approval_id, vault.owner)
        const { purpose, parts, ...own } = view
        t.notMatch(JSON.stringify(own), new RegExp(foreignWord), `${place} ${i}`)
        t.ok([purpose ?? '', ...parts.map((part) => part.text)].join().includes(foreignWord))
        t.notOk(parts.some(({ title }) => title.includes(foreignWord)))

        for (const columns of [40, 120]) assertBarred(t, approvalCard(view, columns), /^ {2}[│┆] /)
        assertBarred(t, approvalText(vault.api.approvalQueue.get(view.id)!).text, /^│ /)
        await vault.asOwner('POST', `/v1/vault/approvals/${view.id}/deny`, {})
      }
    }
  }
  const { events } = (await vault.asOwner('GET', '/v1/vault/activity?limit=500')).body
  t.notMatch(JSON.stringify(events), new RegExp(foreignWord), 'nor in the log')
})

/** Every line of foreign text on a card is behind its bar, and only there. */
function assertBarred(t: Tap, card: string, bar: RegExp): void {
  const own = card.split('\n').filter((line) => !bar.test(line))
  t.notMatch(
    own.join('\n').replaceAll(/\s/g, ''),
    /zzforeignzz|approved\.|evil\.test|apr_other|Send0USDC|Send0\.01|vaultsays/,
  )
  t.notMatch(card, /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
}
type Tap = Pick<typeof t, 'notMatch'>

t.test('a refused request leaves no text of its agent in what the log says that it found', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('liar', ['wallet.base'])
  for (const text of foreignTexts) {
    const word = text.slice(-128)
    const bodies: readonly [string, object][] = [
      ['sign', { ...signBody('2'), currency: text.slice(-64) }],
      ['sign', { ...signBody('2'), recipient: word }],
      [
        'sign-typed-data',
        { chain: 'base', amount: 1, typed_data: `{"a":1,"${foreignWord}":1,"${foreignWord}":2}` },
      ],
      ['sign-typed-data', { chain: 'base', amount: 1, typed_data: { ...typedData('x'), [text]: 1 } }],
    ]
    for (const [path, body] of bodies) {
      const { status } = await agent.call('POST', `/v1/vault/${path}`, body, noWait)
      t.ok(status >= 400 && status < 500)
    }
  }
  const { events } = (await vault.asOwner('GET', '/v1/vault/activity?limit=500')).body
  t.ok(events.length > 0)
  for (const { claimed, ...entry } of events) {
    t.notMatch(JSON.stringify(entry), new RegExp(foreignWord))
    t.notMatch(
      String(claimed).replaceAll(/“[^”]*”/g, ''),
      /zz|approved/,
      'nor does it leave its quotes in its claim',
    )
  }
})

t.test('a memo is a text of its own', (t) => {
  for (const text of foreignTexts) {
    const read = decoded([transferChecked(1n), memo(text)])
    t.notMatch([...plainWords(read, pinnedAssets), ...read.warnings].join(), new RegExp(foreignWord))
  }
  t.end()
})

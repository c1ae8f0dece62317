import t from 'tap'
import { startAdmin } from '../test/helpers/admin-api/startAdmin.ts'
import { evmWallet } from '../test/helpers/admin-api/wallets.ts'

/** One of each kind, and the ends of each range. */
const deceivers = [
  ...[0x00ad, 0x034f, 0x061c, 0x115f, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202e],
  ...[
    0x2060, 0x2066, 0x2069, 0x206f, 0x3164, 0xfeff, 0xffa0, 0xe0000, 0xe0041, 0xe007f, 0x07, 0x1b, 0x7f, 0x85,
  ],
  // Variation selectors spell bytes that are never shown; so do other invisible characters.
  ...[
    0xfe00, 0xfe0d, 0xfe0e, 0xfe0f, 0xe0100, 0xe01ef, 0x180b, 0x180f, 0x2800, 0x1bca0, 0x1d173, 0xfff0,
    0xe0fff,
  ],
]
const nameOf = (code: number) => `U+${code.toString(16).toUpperCase().padStart(4, '0')}`

t.test('a public text with a character that hides or deceives is refused, by name and place', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const { id } = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Weather' } })).body.data
  const link = (more: object) => ['POST', '/api/v1/links', { url, title: 'T', ...more }] as const
  const places: [field: string, request: (text: string) => readonly [string, string, object]][] = [
    ['title', (text) => link({ title: text })],
    ['description', (text) => link({ description: text })],
    [
      'inputSchema.properties.city.description',
      (text) => link({ inputSchema: { properties: { city: { description: text } } } }),
    ],
    ['inputSchema', (text) => link({ inputSchema: { [text]: {} } })],
    ['outputExample[1]', (text) => link({ outputExample: ['fine', text] })],
    ['title', (text) => ['PATCH', `/api/v1/links/${id}`, { title: text }]],
    ['displayName', (text) => ['PATCH', '/api/v1/profile', { displayName: text }]],
    ['bio', (text) => ['PATCH', '/api/v1/profile', { bio: text }]],
    ['avatarUrl', (text) => ['PATCH', '/api/v1/profile', { avatarUrl: `https://img.example/${text}` }]],
    ['name', (text) => ['POST', '/api/agent/keys', { name: text }]],
  ]
  for (const [field, request] of places) {
    // One rule for all of them: each character at one place, a few at the others.
    for (const code of field === 'title' ? deceivers : [0x200d, 0x202e, 0xe0041, 0x1b]) {
      const [method, path, body] = request(`🦆b${String.fromCodePoint(code)}c`)
      const response = await f.call(method, path, { key, body })
      t.equal(response.status, 400, `${field} ${nameOf(code)}`)
      t.equal(response.body.error.code, 'VALIDATION_ERROR')
      const detail = response.body.error.details.find((d: { code: string }) => d.code === 'hidden_character')
      t.match(detail?.path, field === 'outputExample[1]' ? /^outputExample/ : field)
      const at = field === 'avatarUrl' ? 23 : 3
      t.ok(detail?.message.includes(`character ${at} is ${nameOf(code)}.`), detail?.message)
    }
  }
  const signedUp = await f.signUp(evmWallet(), { displayName: 'Good\u202eliving' })
  t.match(signedUp.body.error.details, [
    { path: 'displayName', code: 'hidden_character', message: /5 is U\+202E/ },
  ])
  t.equal((await f.db.links.find(id))!.title, 'Weather')
})

t.test('a selector of an emoji is fine once, and a row of them is not', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const change = async (bio: string) =>
    (await f.call('PATCH', '/api/v1/profile', { key, body: { bio } })).status
  t.equal(await change('❤\ufe0f 0\ufe0f\u20e3 ✔\ufe0e ᠠ\u180b'), 200)
  for (const row of ['❤\ufe0f\ufe0f', '❤\ufe0f\ufe0e', 'ᠠ\u180b\u180c', 'a\ufe0f', '\ufe0f']) {
    t.equal(await change(row), 400, JSON.stringify(row))
  }
})

t.test('every script, emoji and, in long texts, line ends and tabs are fine', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const texts = [
    '天気',
    'مرحبا',
    'שלום',
    'ह\u093fन\u094dद\u0940',
    'Ünïcode e\u0301',
    '🦆 🇫🇷 👍🏽 ❤\ufe0f 1\ufe0f\u20e3',
    'a\u00a0b\u3000c',
  ]
  for (const text of texts) {
    const body = {
      url,
      title: text,
      description: `${text}\n\t${text}\r\n`,
      outputExample: { [text]: `${text}\n` },
    }
    const { status, body: response } = await f.call('POST', '/api/v1/links', { key, body })
    t.equal(status, 201, text)
    t.match((await f.call('GET', `/api/v1/links/${response.data.id}`, { key })).body.data, body)
    t.equal(
      (await f.call('PATCH', '/api/v1/profile', { key, body: { displayName: text, bio: text } })).status,
      200,
    )
  }
  for (const title of ['a\nb', 'a\tb', ' ', '\u3000', '\u0301\u0301', ' \u0489']) {
    t.equal((await f.call('POST', '/api/v1/links', { key, body: { url, title } })).status, 400)
  }
})

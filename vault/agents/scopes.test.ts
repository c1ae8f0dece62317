import fc from 'fast-check'
import t from 'tap'
import { grantCovers, isScope, parseGrant, parseScope, scopeForms } from './grant.ts'

const scopes = [
  'identity.name',
  'identity.email',
  'address.home',
  'address.shipping.primary',
  'credentials.api.openai',
  'wallet.solana',
  'preferences.seat',
  'preferences.travel.seat',
  'custom.a.b-c.d_1',
]

t.test('scopes are what the table names, and nothing near them', async (t) => {
  for (const scope of scopes) t.equal(parseScope(scope), scope)
  const wrong = [
    ...[
      '',
      '.',
      'identity',
      'identity.',
      '.identity.name',
      'identity..name',
      'identity.name.first',
      'identity.Name',
    ],
    ...[
      ' identity.name',
      'identity.name ',
      'identity.nam',
      'identity.fullname',
      'name',
      'email',
      'address',
      'address.x',
    ],
    ...[
      'address.shipping',
      'address.shipping.a.b',
      'credentials.api',
      'credentials.openai',
      'credentials.api.a.b',
    ],
    ...[
      'wallet',
      'wallet.solana.0',
      'preferences',
      'custom',
      'custom.*',
      '*',
      'custom.-a',
      'custom.a-',
      'custom.ä',
    ],
    ...[
      'constructor',
      '__proto__',
      'identity.__proto__',
      'toString.x',
      `custom.${'a'.repeat(65)}`,
      'custom.a/b',
    ],
    ...[`custom${'.a'.repeat(8)}`, 'identity.name\n', 'identity\u0000.name', 'custom.a\u0000'],
  ]
  for (const text of wrong) t.throws(() => parseScope(text), { code: 'UNKNOWN_SCOPE' }, JSON.stringify(text))
  for (const other of [undefined, null, 3, {}, ['identity.name']]) {
    t.throws(() => parseScope(other as never), { code: 'UNKNOWN_SCOPE' })
  }
  t.ok(scopeForms.includes('credentials.api.<provider>'))
})

t.test('a grant is a scope or whole segments above some', async (t) => {
  const grants = [
    'identity.*',
    'address.*',
    'address.shipping.*',
    'credentials.*',
    'credentials.api.*',
    'wallet.*',
  ]
  for (const grant of [...scopes, ...grants, 'preferences.*', 'custom.*', 'custom.travel.*']) {
    t.equal(parseGrant(grant), grant)
  }
  const wrong = [
    '*',
    '.*',
    'ident.*',
    'identity*',
    'identity.name.*',
    'identity.n*',
    'credentials.api.openai.*',
    'x.*',
    '**',
  ]
  for (const grant of wrong) t.throws(() => parseGrant(grant), { code: 'UNKNOWN_SCOPE' }, grant)
})

t.test('a grant covers by whole segments, never by the characters that a name begins with', async (t) => {
  t.ok(grantCovers('custom.pay.*', 'custom.pay.day'))
  t.notOk(grantCovers('custom.pay.*', 'custom.payday'))
  t.notOk(grantCovers('custom.pay.*', 'custom.pay'))
  t.notOk(grantCovers('identity.name', 'identity.email'))
  t.notOk(grantCovers('identity', 'identity.name'))
  const segment = fc.stringMatching(/^[a-z0-9]{1,4}$/)
  const path = fc.array(segment, { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(path, path, (above, below) => {
      const scope = `custom.${below.join('.')}`
      const covers = grantCovers(`custom.${above.join('.')}.*`, scope)
      const isAbove = above.length < below.length && above.every((part, i) => part === below[i])
      return (
        isScope(scope) && covers === isAbove && grantCovers(scope, scope) && grantCovers('custom.*', scope)
      )
    }),
    { numRuns: 500 },
  )
})

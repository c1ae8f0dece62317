import t from 'tap'
import { type GrantVerb, grantFor, parseGrantLine } from './grant.ts'

const may = (lines: readonly string[], verb: GrantVerb, scope: string) =>
  grantFor(lines.flatMap(parseGrantLine), verb, scope)

t.test('a scope alone means what is usual for it', async (t) => {
  t.strictSame(may(['identity.name'], 'read', 'identity.name'), { asks: false })
  t.strictSame(may(['identity.name'], 'write', 'identity.name'), { asks: true })
  t.equal(may(['identity.name'], 'read', 'identity.email'), undefined)
  t.strictSame(may(['credentials.api.github'], 'call', 'credentials.api.github'), { asks: false })
  t.equal(may(['credentials.api.github'], 'read', 'credentials.api.github'), undefined)
  t.equal(may(['credentials.*'], 'read', 'credentials.api.github'), undefined)
  t.strictSame(may(['wallet.base'], 'sign', 'wallet.base'), { asks: false })
  t.equal(may(['address:wallet.base'], 'sign', 'wallet.base'), undefined)
  t.strictSame(may(['vault.lock'], 'lock', 'vault.lock'), { asks: false })
  t.equal(may(['vault.lock'], 'read', 'vault.lock'), undefined)
})

t.test('grants cover whole segments', async (t) => {
  t.strictSame(may(['custom.pay.*'], 'read', 'custom.pay.day'), { asks: false })
  t.equal(may(['custom.pay.*'], 'read', 'custom.payday'), undefined)
  t.equal(may(['custom.pay'], 'read', 'custom.pay.day'), undefined)
})

t.test('the most open of several lines counts, each for its own verb', async (t) => {
  t.strictSame(may(['ask:custom.*', 'custom.note'], 'read', 'custom.note'), { asks: false })
  t.strictSame(may(['ask:custom.*', 'custom.note'], 'read', 'custom.other'), { asks: true })
  t.strictSame(may(['auto:write:custom.note'], 'write', 'custom.note'), { asks: false })
  t.equal(may(['auto:write:custom.note'], 'read', 'custom.note'), undefined)
})

t.test('what makes no sense is no grant', async (t) => {
  for (const line of [
    '',
    '*',
    'identity',
    'identity.nam',
    'Identity.name',
    'reads:identity.name',
    ':identity.name',
  ])
    t.throws(() => parseGrantLine(line), { message: /Expected/ }, line)
  for (const line of [
    'sign:identity.name',
    'read:wallet.base',
    'call:wallet.base',
    'auto:read:credentials.api.x',
    'ask:vault.lock',
    'read:vault.lock',
    'lock:wallet.base',
  ])
    t.throws(() => parseGrantLine(line), { code: 'VALIDATION_ERROR' }, line)
})

import fc from 'fast-check'
import t from 'tap'
import { parseGrantLine } from '../agents/grant.ts'
import { scopeForms } from '../storage/records/scopes.ts'

interface Grants {
  readonly exactScopes: readonly string[]
  problemOf(line: string): string | undefined
  isLoud(line: string): boolean
  waysOf(scope: string): readonly (readonly [string, string])[]
}
const { exactScopes, problemOf, isLoud, waysOf } = (await import('./assets/grants.js' as string)) as Grants

const isRefused = (line: string): boolean => {
  try {
    parseGrantLine(line)
    return false
  } catch {
    return true
  }
}

t.test('the page finds wrong exactly those lines that the vault refuses', (t) => {
  const words = ['ask', 'auto', 'read', 'write', 'call', 'sign', 'address', 'lock', 'x', '']
  const names = [
    'identity',
    'name',
    'credentials',
    'api',
    'wallet',
    'base',
    'custom',
    'vault',
    'lock',
    '*',
    'A',
    '-',
  ]
  const line = fc
    .tuple(
      fc.array(fc.constantFrom(...words), { maxLength: 2 }),
      fc.oneof(
        fc.constantFrom(...scopeForms, 'address.shipping.x', 'identity.*', '*', 'wallet.*', 'custom.a.*'),
        fc.array(fc.constantFrom(...names), { maxLength: 9 }).map((all) => all.join('.')),
      ),
    )
    .map(([before, scope]) => [...before, scope].join(':'))
  fc.assert(
    fc.property(line, (text) => (problemOf(text) !== undefined) === isRefused(text)),
    { numRuns: 3_000 },
  )
  t.end()
})

t.test('every way that the page offers for a scope is one that the vault takes', (t) => {
  t.strictSame(
    exactScopes,
    scopeForms.filter((form) => !/[<*]/.test(form)),
  )
  for (const scope of [...exactScopes, 'credentials.api.github', 'wallet.base', 'custom.a', 'identity.*'])
    for (const [before] of waysOf(scope)) t.notOk(isRefused(`${before}${scope}`), `${before}${scope}`)
  t.end()
})

t.test('what is kept under names of the own is offered with a question only', (t) => {
  for (const scope of ['custom.a', 'custom.*']) {
    t.ok(waysOf(scope).length > 0)
    for (const [before] of waysOf(scope)) t.ok(parseGrantLine(`${before}${scope}`).every(({ asks }) => asks))
  }
  t.end()
})

t.test('what hands a secret itself to an agent is loud, and nothing else', (t) => {
  for (const line of ['read:credentials.api.github', 'ask:read:credentials.api.*', 'read:credentials.*'])
    t.ok(isLoud(line), line)
  for (const line of [
    'credentials.api.github',
    'ask:credentials.api.x',
    'write:credentials.api.x',
    'read:identity.name',
  ])
    t.notOk(isLoud(line), line)
  t.end()
})

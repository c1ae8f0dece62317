import t from 'tap'
import { parseGrantLine, scopeForms } from '../agents/grant.ts'
import { choicesOf, exactScopes, isLoud, problemOf } from './app/agents/grants.ts'

const isRefused = (line: string): boolean => problemOf(line) !== undefined

t.test('every way that the page offers for a scope is one that the vault takes', (t) => {
  t.strictSame(
    exactScopes,
    scopeForms.filter((form) => !/[<*]/.test(form)),
  )
  for (const scope of [...exactScopes, 'credentials.api.github', 'wallet.base', 'custom.a', 'identity.*'])
    for (const [before] of choicesOf(scope)) t.notOk(isRefused(`${before}${scope}`), `${before}${scope}`)
  t.end()
})

t.test('what is kept under names of the own is offered with a question only', (t) => {
  for (const scope of ['custom.a', 'custom.*']) {
    t.ok(choicesOf(scope).length > 0)
    for (const [before] of choicesOf(scope))
      t.ok(parseGrantLine(`${before}${scope}`).every(({ asks }) => asks))
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

import fc from 'fast-check'
import t from 'tap'
import { escapeInterpolation, interpolate } from './interpolate.ts'

const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,12}$/)
const trickyText = fc.oneof(fc.string({ unit: 'binary' }), fc.stringMatching(/^[${}:A-Z-]{0,12}$/))

t.test('an escaped text comes back unchanged, whatever is in it', (t) => {
  fc.assert(
    fc.property(trickyText, (text) => {
      const { value, problems, usesEnvironment } = interpolate(escapeInterpolation(text), {})
      return value === text && problems.length === 0 && !usesEnvironment
    }),
  )
  t.end()
})

t.test('a variable is replaced by its value, and the value is not looked at again', (t) => {
  fc.assert(
    fc.property(name, trickyText, trickyText, trickyText, (variable, held, before, after) => {
      fc.pre(held !== '')
      const text = `${escapeInterpolation(before)} \${${variable}}${escapeInterpolation(after)}`
      const { value, problems } = interpolate(text, { [variable]: held })
      return value === `${before} ${held}${after}` && problems.length === 0
    }),
  )
  t.end()
})

t.test('a default is taken when the variable is unset or empty, and only then', (t) => {
  fc.assert(
    fc.property(name, fc.stringMatching(/^[^}]*$/), (variable, fallback) => {
      const text = `\${${variable}:-${fallback}}`
      return (
        interpolate(text, {}).value === fallback &&
        interpolate(text, { [variable]: '' }).value === fallback &&
        interpolate(text, { [variable]: 'held' }).value === 'held'
      )
    }),
  )
  t.end()
})

t.test('an unset and an empty variable are problems that name it', (t) => {
  t.match(interpolate(`a\${NAME}b`, {}).problems, [{ at: `\${NAME}`, message: /NAME is not set/ }])
  t.match(interpolate(`a\${NAME}b`, { NAME: '' }).problems, [{ at: `\${NAME}`, message: /NAME is empty/ }])
  t.end()
})

t.test('names that every object inherits are not variables', (t) => {
  for (const inherited of ['toString', 'constructor', '__proto__']) {
    t.equal(interpolate(`\${${inherited}}`, {}).problems.length, 1, inherited)
  }
  t.end()
})

t.test('what does not name a variable is a problem, not a text', (t) => {
  for (const text of [`\${}`, `\${`, `\${a b}`, `\${1A}`, `\${A:=x}`, `\${A`]) {
    t.match(
      interpolate(text, { A: 'x' }).problems,
      [{ message: /Expected the name of an environment variable/ }],
      text,
    )
  }
  t.end()
})

t.test('only one variable and nothing else counts as whole', (t) => {
  const env = { A: '1', B: '2' }
  t.equal(interpolate(`\${A}`, env).isWhole, true)
  t.equal(interpolate(`\${C:-3}`, env).isWhole, true)
  for (const text of [`1\${A}`, `\${A} `, `\${A}\${B}`, `$\${A}`, '1']) {
    t.equal(interpolate(text, env).isWhole, false, text)
  }
  t.end()
})

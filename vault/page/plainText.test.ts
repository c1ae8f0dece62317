import { h } from 'preact'
import t from 'tap'
import { showTextsPlainly } from './app/plainText.ts'

t.test('markup made of text is refused where it is drawn, also without Trusted Types', async (t) => {
  showTextsPlainly()
  t.throws(() => h('p', { dangerouslySetInnerHTML: { __html: '<b>x</b>' } }), { message: /got markup/ })
  t.ok(h('p', { title: '<b>x</b>' }, '<b>x</b>'))
})

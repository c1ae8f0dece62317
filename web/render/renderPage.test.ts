import t from 'tap'
import { CopyButton } from '../components/button.ts'
import { html } from '../html.ts'
import { renderPage } from './renderPage.ts'

const hostile = `"'></title></script><script>alert(1)</script><!--\u2028`
const page = { name: 'site', title: 'A', description: 'B', body: html`<p>C</p>` }

t.test(
  'a text stays a text wherever it stands: title, description, body, attribute, data, props',
  async (t) => {
    const { html: text } = renderPage({
      ...page,
      title: hostile,
      description: hostile,
      canonicalUrl: hostile,
      data: { [hostile]: hostile },
      body: html`<p title=${hostile}>${hostile}</p><${CopyButton} text=${hostile} what=${hostile} />`,
    })
    t.notMatch(text, '<script>alert')
    t.equal(text.match(/<\/title>/g)?.length, 1)
    const data = /id="page-data">([^<]*)<\/script>/.exec(text)?.[1]
    t.strictSame(JSON.parse(data!), { [hostile]: hostile })
  },
)

t.test('the nonce is the same while the page is, and another for every other page', async (t) => {
  const nonceOf = (policy: string) => /'nonce-([\w-]{43})'/.exec(policy)?.[1]
  const [one, same, other] = [renderPage(page), renderPage(page), renderPage({ ...page, data: 1 })]
  t.same(one, same)
  t.ok(nonceOf(one.policy))
  t.not(nonceOf(one.policy), nonceOf(other.policy))
})

t.test('a policy gets no wider than a page asks for', async (t) => {
  const { policy } = renderPage(page)
  t.notMatch(policy, 'unsafe')
  t.notMatch(policy, 'https:')
  t.match(renderPage({ ...page, hasForeignImages: true }).policy, "img-src 'self' data: https:;")
  t.match(
    renderPage({ ...page, connectsTo: ['https://a.example'] }).policy,
    "connect-src 'self' https://a.example;",
  )
  t.notMatch(renderPage({ ...page, hasTrustedTypes: false }).policy, 'trusted-types')
})

import t from 'tap'
import { deadLinks } from './build/deadLinks.ts'
import { renderMarkdown } from './build/markdown.ts'
import { searchRecords } from './build/searchRecords.ts'
import { sectionsOf } from './build/sections.ts'

t.test('a link, an anchor and a picture that lead nowhere are found', async (t) => {
  const html = `<a href="b.html">b</a><a href="b.html#there">b</a><a href="b.html#gone">b</a><a href="c.html">c</a>
    <a href="#own">own</a><a href="https://elsewhere.example">e</a><img src="p.png"><h2 id="own">Own</h2>`
  const pages = [
    { path: 'x/a.html', html },
    { path: 'x/b.html', html: '<h1 id="there">B</h1>' },
  ]
  t.strictSame(deadLinks(pages, []), ['x/a.html → b.html#gone', 'x/a.html → c.html', 'x/a.html → p.png'])
  t.strictSame(deadLinks(pages, ['x/p.png', 'x/c.html']), ['x/a.html → b.html#gone'])
})

t.test('links to documents become links to their pages, and links to other files become words', async (t) => {
  const rendered = renderMarkdown(
    '# A\n\n[b](../decisions/README.md#decisions) [c](../../README.md) <!-- not shown -->\n\n## A b: `c`!\n',
    'docs/tutorials/README.md',
  )
  t.match(rendered, '<a href="../decisions/index.html#decisions">b</a> c')
  t.match(rendered, '<h2 id="a-b-c">')
  t.notMatch(rendered, 'not shown')
  const dead = renderMarkdown('[x](nope.md)', 'docs/tutorials/README.md')
  t.strictSame(deadLinks([{ path: 'tutorials/index.html', html: dead }], []), [
    'tutorials/index.html → nope.html',
  ])
})

t.test('a folder is a section, by its order, and its pages stand in theirs', async (t) => {
  const document = (url: string, title: string, order?: number) => ({
    url,
    rawInput: `# ${title}\n\nAbout \`${title}\`.\nMore.\n\nNot this.\n`,
    data: { order },
  })
  const sections = sectionsOf([
    document('/', 'Home'),
    document('/b/', 'B', 2),
    document('/b/z.html', 'Last, by its title'),
    document('/b/y.html', 'First, by its order', 1),
    document('/b/x.html', 'In between'),
    document('/a/', 'A', 1),
    document('/a/x.html', 'Only'),
    document('/empty/', 'Empty', 0),
  ])
  t.match(
    sections.map(({ title, about, pages }) => [title, about, pages.map((page) => page.title)]),
    [
      ['A', 'About A. More.', ['Only']],
      ['B', 'About B. More.', ['First, by its order', 'In between', 'Last, by its title']],
    ],
  )
})

t.test('a search finds a section by its heading and its text, as a reader sees them', async (t) => {
  const html =
    '<article class="x"><h1 id="a">A &amp; b</h1><p>One <code>two</code></p><h2 id="c"><a href="#c">C</a></h2><p>Three</p></article>'
  t.strictSame(searchRecords([{ path: 'a.html', html }]), [
    { address: 'a.html#a', page: 'A & b', heading: 'A & b', text: 'One two' },
    { address: 'a.html#c', page: 'A & b', heading: 'C', text: 'Three' },
  ])
})

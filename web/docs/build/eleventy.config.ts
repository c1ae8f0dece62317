import { pageOf, renderMarkdown } from './markdown.ts'

/** The part of Eleventy's configuration object that is used here. */
interface EleventyConfig {
  addExtension(extension: string, options: { readonly key: string }): void
  addGlobalData(name: string, value: unknown): void
  addTemplate(path: string, text: string, data: object): void
  setLibrary(engine: 'md', library: { render(text: string, data: PageData): string }): void
}

interface PageData {
  readonly page: { readonly inputPath: string; readonly filePathStem: string }
}

/** Configures Eleventy. Each file of `docs/` becomes a page in the layout `page.11ty.ts`, and one more page has the search. */
export default function configure(config: EleventyConfig): object {
  config.addExtension('11ty.ts', { key: '11ty.js' })
  config.addGlobalData('layout', 'page.11ty.ts')
  config.addGlobalData('eleventyComputed.permalink', () => permalinkOf)
  config.addTemplate('search.md', '# Search\n\nFinds a word in every page.\n', {
    eleventyExcludeFromCollections: true,
  })
  config.setLibrary('md', {
    render: (text, { page }) => renderMarkdown(text, page.inputPath.replace(/^\.\//, '')),
  })
  return {
    dir: { input: 'docs', includes: '../web/docs/build' },
    templateFormats: ['md'],
    markdownTemplateEngine: false,
  }
}

const permalinkOf = ({ page }: PageData): string => pageOf(`${page.filePathStem}.md`)

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';
import ts from 'typescript';

const ROOT = resolve(__dirname, '../..');
// Files that exist only in memory, inside the package, so that its own name resolves to the built types.
const virtual = (name: string): string => resolve(ROOT, `test/package/${name}.virtual.ts`);

/** A type test of test/types as a user would write it: against the package, merging into it by its name. */
function asUser(name: string): string {
  return readFileSync(resolve(ROOT, `test/types/${name}.ts`), 'utf8')
    .replaceAll("'../../lib/testing'", "'express-celery-outbox/testing'")
    .replaceAll(/'\.\.\/\.\.\/lib[^']*'/g, "'express-celery-outbox'");
}

function compileAsUser(names: readonly string[], options: ts.CompilerOptions): string[] {
  const sources = new Map(names.map((name) => [virtual(name), asUser(name)]));
  const settings = {
    ...options,
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    esModuleInterop: true,
    types: ['node'],
  };
  const host = ts.createCompilerHost(settings);
  const getSourceFile = host.getSourceFile.bind(host);
  host.getSourceFile = (file, ...rest) => {
    const source = sources.get(file);
    return source === undefined
      ? getSourceFile(file, ...rest)
      : ts.createSourceFile(file, source, ts.ScriptTarget.ES2022);
  };
  const program = ts.createProgram([...sources.keys()], settings, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('the types of the built package', () => {
  const modes: [string, ts.CompilerOptions][] = [
    ['node16', { module: ts.ModuleKind.Node16, target: ts.ScriptTarget.ES2022 }],
    [
      'a bundler',
      {
        module: ts.ModuleKind.ESNext,
        moduleResolution: ts.ModuleResolutionKind.Bundler,
        target: ts.ScriptTarget.ES2022,
      },
    ],
  ];
  for (const [name, options] of modes) {
    it(`hold with the resolution of ${name}`, () => {
      expect(compileAsUser(['typed-tasks', 'own-broker'], options)).to.deep.equal([]);
    });
  }
});

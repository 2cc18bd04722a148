import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect } from 'chai';
import ts from 'typescript';

const ROOT = resolve(__dirname, '../..');
// A file that exists only in memory, inside the package, so that its own name resolves to the built types.
const VIRTUAL = resolve(ROOT, 'test/package/typed-tasks.virtual.ts');

/** The type tests of test/types as a user would write them: against the package, merging into it by its name. */
function compileAsUser(options: ts.CompilerOptions): string[] {
  const source = readFileSync(resolve(ROOT, 'test/types/typed-tasks.ts'), 'utf8').replace(
    /'\.\.\/\.\.\/lib[^']*'/g,
    "'express-celery-outbox'",
  );
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
  host.getSourceFile = (file, ...rest) =>
    file === VIRTUAL
      ? ts.createSourceFile(file, source, ts.ScriptTarget.ES2022)
      : getSourceFile(file, ...rest);
  const program = ts.createProgram([VIRTUAL], settings, host);
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
      expect(compileAsUser(options)).to.deep.equal([]);
    });
  }
});
